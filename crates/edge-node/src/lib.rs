//! Threads, sockets, disks, TLS: the host of the core.
