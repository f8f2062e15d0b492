//! The crate's only unsafe code: descriptors that a launcher has left open, what it has
//! signals do, and libpmix.

pub mod inherited;
pub mod pmix;
pub mod signals;
