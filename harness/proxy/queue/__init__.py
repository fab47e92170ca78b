"""Queue mode: a model for sandboxes that can reach nothing.

A relay inside the sandbox listens on its loopback and turns every HTTP request into one file; the harness fetches the
requests with one long poll at a time through the sandbox's own `execute`, answers them through the proxy, and hands the
responses back as files, piece by piece. Any number of requests may wait, and are answered in whatever order.

The relay is one file of Perl (`relay.pl`) that needs nothing but what Debian's and Ubuntu's `perl-base` has.
"""
