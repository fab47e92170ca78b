"""`harness view`: jobs, trials and training runs as a local web page that reads and never writes what it shows."""
