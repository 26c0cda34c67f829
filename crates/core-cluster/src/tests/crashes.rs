//! Crashes between two steps that must become durable in order.
