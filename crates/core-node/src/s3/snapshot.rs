//! One instant of a whole bucket: a pin in every shard.
