//! The engine of tests and simulation: ordered maps, with a crash that forgets what was not durable.
