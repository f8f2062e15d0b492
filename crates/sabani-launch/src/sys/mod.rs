//! The crate's only unsafe code: descriptors that a launcher has left open, and libpmix.

pub mod inherited;
pub mod pmix;
