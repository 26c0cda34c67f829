//! The replicated state machines: allocator, reference, metadata, redis.
