"""Sandboxes on this very machine: Linux namespaces, no engine, no image.

The host's `/usr` and a minimal `/etc` serve, read-only, as the image; every other path is a private folder that is
removed at the end. How it holds:

- One namespace per sandbox, made by bubblewrap, or by `unshare` where that is missing (`namespaces`). Its pid 1 reads
  a pipe whose other end only this process holds, so a sandbox never outlives its harness. Commands are started by a
  small process that stands outside (`doorman`, `entry`), write to the host's own pipes, and background processes
  survive from one to the next (`process`).
- Nothing of one sandbox is used for the next: namespaces and private folders are always new. With `TMPDIR` on a file
  system in memory (/dev/shm) a sandbox costs less, and its files count as memory.
- Run as root, everything starts as an unprivileged uid drawn for that one sandbox: root inside is a nobody outside,
  and two sandboxes cannot reach each other's files. Commands hold no capability and can gain none; pid 1 keeps one,
  harmless, which is what keeps commands from tracing it.
- What a command started is recognised by an rlimit that it cannot help inheriting, however it daemonises; what all
  commands started is everything else in the namespace.
- One uid is mapped, so every user name that a task gives is that one user (`Capabilities.users` is False). Memory is
  limited per process only (`RLIMIT_DATA`), so `memory_limit` is False and `oom` is always None.
- Disk and CPU are the host's, shared; a command is held to a number of processes and a size of file. With the network
  open, the host's own is shared, abstract sockets and services on loopback included.
- Where namespaces are forbidden, a sandbox starts only with `allow_unsafe` and isolates nothing: commands are the
  host's, on the host's own paths, and still die at their deadline.
"""
