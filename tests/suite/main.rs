//! Tests between processes.
