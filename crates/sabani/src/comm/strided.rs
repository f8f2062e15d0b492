//! Elements that lie apart: a column of a matrix, a face of a cube.

use std::ops::Range;

use bytemuck::{Pod, cast_slice_mut};

use super::tag::Kind;
use super::{Comm, Error};

/// Where elements lie in a slice: blocks of one length, their beginnings equally far apart.
///
/// ```
/// use sabani::comm::Strided;
///
/// // The second column of a matrix of three rows and four columns.
/// let matrix = [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23];
/// let column = Strided { count: 3, block: 1, stride: 4 };
/// assert_eq!(column.pack(&matrix[1..]), [1, 11, 21]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// How many blocks.
    pub count: usize,
    /// Elements of a block.
    pub block: usize,
    /// Elements from the beginning of a block to that of the next one.
    pub stride: usize,
}

impl Strided {
    /// The number of elements of all blocks.
    #[expect(clippy::len_without_is_empty, reason = "it counts, and holds nothing")]
    pub fn len(&self) -> usize {
        // What is beyond all numbers is in no slice.
        self.count.saturating_mul(self.block)
    }

    /// Blocks that have elements: others lie nowhere.
    fn blocks(&self) -> Range<usize> {
        0..if self.block == 0 { 0 } else { self.count }
    }

    /// # Panics
    /// If blocks lie beyond the end of a slice of so many elements, be it because there are no such numbers.
    fn check(&self, len: usize) {
        let end = |last| self.stride.checked_mul(last)?.checked_add(self.block);
        let last = self.blocks().next_back();
        let is_within = last.is_none_or(|last| end(last).is_some_and(|end| end <= len));
        assert!(is_within, "{self:?} goes beyond {len} elements");
    }

    /// The elements, one block behind the other.
    ///
    /// # Panics
    /// If the slice is too short.
    pub fn pack<T: Copy>(&self, elements: &[T]) -> Vec<T> {
        self.check(elements.len());
        let mut packed = Vec::with_capacity(self.len());
        for index in self.blocks() {
            packed.extend_from_slice(&elements[index * self.stride..][..self.block]);
        }
        packed
    }

    /// Puts elements that were packed to their places, and leaves those between as they are.
    ///
    /// # Panics
    /// If the slice is too short, or `packed` has not [`Strided::len`] elements.
    pub fn unpack<T: Copy>(&self, packed: &[T], elements: &mut [T]) {
        assert_eq!(packed.len(), self.len(), "as many elements as places");
        self.check(elements.len());
        for index in self.blocks() {
            let place = &mut elements[index * self.stride..][..self.block];
            place.copy_from_slice(&packed[index * self.block..][..self.block]);
        }
    }
}

impl Comm {
    /// Sends elements that lie apart, as one message: to be received as such, or as any others.
    ///
    /// # Errors
    /// As [`Comm::send`].
    ///
    /// # Panics
    /// If the slice is too short.
    pub fn send_strided<T: Pod>(
        &self,
        to: usize,
        tag: u32,
        elements: &[T],
        layout: Strided,
    ) -> Result<(), Error> {
        self.send(to, tag, &layout.pack(elements))
    }

    /// Receives elements to places that lie apart: exactly as many as there are.
    ///
    /// # Errors
    /// As [`Comm::recv`].
    ///
    /// # Panics
    /// If the slice is too short.
    pub fn recv_strided<T: Pod>(
        &self,
        from: usize,
        tag: u32,
        elements: &mut [T],
        layout: Strided,
    ) -> Result<(), Error> {
        // The message stays for others if it has no place here.
        layout.check(elements.len());
        let message = self.recv_message(from, Kind::Message, tag)?;
        let element_bytes = size_of::<T>();
        let expected = layout.len().saturating_mul(element_bytes);
        if message.body().len() != expected {
            return Err(Error::Length {
                rank: from,
                tag,
                bytes: message.body().len(),
                expected,
            });
        }
        // Bytes, because a message need not lie as its elements must. One block may have any stride.
        let in_bytes = Strided {
            block: layout.block * element_bytes,
            stride: layout.stride.saturating_mul(element_bytes),
            ..layout
        };
        in_bytes.unpack(message.body(), cast_slice_mut::<T, u8>(elements));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_goes_back_to_its_places_and_nowhere_else() {
        let layout = Strided {
            count: 3,
            block: 2,
            stride: 5,
        };
        let from: Vec<_> = (0..12).collect();
        let packed = layout.pack(&from);
        assert_eq!(packed, [0, 1, 5, 6, 10, 11]);
        let mut into = vec![-1; 12];
        layout.unpack(&packed, &mut into);
        let expected: Vec<_> = (0..12).map(|at| if at % 5 < 2 { at } else { -1 }).collect();
        assert_eq!(into, expected);
    }

    #[test]
    fn blocks_without_elements_need_no_place() {
        let layout = Strided {
            count: 3,
            block: 0,
            stride: 5,
        };
        assert!(layout.pack::<u8>(&[]).is_empty());
        layout.unpack::<u8>(&[], &mut []);
    }

    fn fits(layout: Strided, len: usize) -> bool {
        std::panic::catch_unwind(|| layout.check(len)).is_ok()
    }

    #[test]
    fn what_goes_beyond_the_slice_is_refused_whatever_the_numbers() {
        let layout = |count, block, stride| Strided {
            count,
            block,
            stride,
        };
        assert!(fits(layout(3, 2, 5), 12) && !fits(layout(3, 2, 5), 11));
        assert!(fits(layout(1, 2, usize::MAX), 2));
        assert!(fits(layout(usize::MAX, 0, usize::MAX), 0));
        // The third block would begin at 0 once more, and so many elements are none.
        assert!(!fits(layout(3, 1, 1 << 63), 1));
        assert!(!fits(layout(1 << 32, 1 << 32, 1 << 32), 1));
        assert_eq!(layout(1 << 32, 1 << 32, 0).len(), usize::MAX);
    }

    #[test]
    fn a_message_without_a_place_stays() {
        let comm = Comm::init().unwrap();
        comm.send(0, 1, &[1_u64, 2, 3]).unwrap();
        let layout = Strided {
            count: 3,
            block: 1,
            stride: 2,
        };
        let receive = std::panic::AssertUnwindSafe(|| {
            comm.recv_strided(0, 1, &mut [0_u64; 4], layout).unwrap();
        });
        std::panic::catch_unwind(receive).unwrap_err();
        assert_eq!(comm.discard(0, 1).unwrap(), Some(24));
    }
}
