//! The thin module around the Raft library; nothing else names it.
