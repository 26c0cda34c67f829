//! The default engine: one LMDB environment a lane, spaces apart by key prefix.
