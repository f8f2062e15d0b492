//! What a reduction combines elements with.

use sabani_collective::Side;

/// Combines two elements. Must be associative, up to rounding: the result for a number of ranks and an
/// algorithm is always the same, but algorithms differ in where they put the parentheses.
pub trait Operation<T> {
    /// Tells operations apart, should ranks disagree: the place in `sabani_collective::execute::OPERATIONS`.
    const ID: u8;
    /// Whether the order does not matter. If it does, elements are combined in the order of ranks.
    const COMMUTATIVE: bool;

    /// `left ∘ right`: what belongs to lower ranks is on the left.
    fn combine(&self, left: T, right: T) -> T;
}

/// The sum; of integers modulo 2ᵇⁱᵗˢ.
#[derive(Clone, Copy, Debug)]
pub struct Sum;
/// The product; of integers modulo 2ᵇⁱᵗˢ.
#[derive(Clone, Copy, Debug)]
pub struct Product;
/// The least one; of floating-point numbers that are no NaN, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Min;
/// The greatest one; of floating-point numbers that are no NaN, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Max;
/// Bits that are set in all.
#[derive(Clone, Copy, Debug)]
pub struct And;
/// Bits that are set in any.
#[derive(Clone, Copy, Debug)]
pub struct Or;
/// Bits that are set in an odd number.
#[derive(Clone, Copy, Debug)]
pub struct Xor;
/// The program's own operation, in which the order does not matter.
#[derive(Clone, Copy, Debug)]
pub struct Commutative<F>(pub F);
/// The program's own operation, in which it does.
#[derive(Clone, Copy, Debug)]
pub struct InOrder<F>(pub F);

/// One operation for several types: `left`, `right` and what becomes of them.
macro_rules! operation {
    ($name:ident, $id:literal, $($kind:ty)*, $left:ident, $right:ident, $result:expr) => {
        $(impl Operation<$kind> for $name {
            const ID: u8 = $id;
            const COMMUTATIVE: bool = true;

            #[inline]
            fn combine(&self, $left: $kind, $right: $kind) -> $kind {
                $result
            }
        })*
    };
}

/// Those that integers have; usize and isize vary among hosts and are left out.
macro_rules! of_integers {
    ($($kind:ty)*) => {
        operation!(Sum, 0, $($kind)*, left, right, left.wrapping_add(right));
        operation!(Product, 1, $($kind)*, left, right, left.wrapping_mul(right));
        operation!(Min, 2, $($kind)*, left, right, left.min(right));
        operation!(Max, 3, $($kind)*, left, right, left.max(right));
        operation!(And, 4, $($kind)*, left, right, left & right);
        operation!(Or, 5, $($kind)*, left, right, left | right);
        operation!(Xor, 6, $($kind)*, left, right, left ^ right);
    };
}

of_integers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);
operation!(Sum, 0, f32 f64, left, right, left + right);
operation!(Product, 1, f32 f64, left, right, left * right);
operation!(Min, 2, f32 f64, left, right, left.min(right));
operation!(Max, 3, f32 f64, left, right, left.max(right));

impl<T, F: Fn(T, T) -> T> Operation<T> for Commutative<F> {
    const ID: u8 = 7;
    const COMMUTATIVE: bool = true;

    fn combine(&self, left: T, right: T) -> T {
        (self.0)(left, right)
    }
}

impl<T, F: Fn(T, T) -> T> Operation<T> for InOrder<F> {
    const ID: u8 = 8;
    const COMMUTATIVE: bool = false;

    fn combine(&self, left: T, right: T) -> T {
        (self.0)(left, right)
    }
}

/// Combines what comes in with what is there, element by element.
pub(super) fn combine_all<T: Copy>(
    operation: &impl Operation<T>,
    from: &[T],
    into: &mut [T],
    side: Side,
) {
    let pairs = into.iter_mut().zip(from);
    match side {
        Side::Left => pairs.for_each(|(into, &from)| *into = operation.combine(from, *into)),
        Side::Right => pairs.for_each(|(into, &from)| *into = operation.combine(*into, from)),
    }
}

#[cfg(test)]
mod tests {
    use sabani_collective::execute::OPERATIONS;

    use super::*;

    #[test]
    fn order_is_kept_on_either_side() {
        let minus = InOrder(|left: i32, right| left - right);
        for (side, expected) in [(Side::Left, [-3, -5]), (Side::Right, [3, 5])] {
            let mut into = [5, 9];
            combine_all(&minus, &[2, 4], &mut into, side);
            assert_eq!(into, expected);
        }
    }

    #[test]
    fn each_has_its_name() {
        fn name<O: Operation<u8>>(_: O) -> &'static str {
            OPERATIONS[usize::from(O::ID)]
        }
        let first = |left, _| left;
        for (name, expected) in [
            (name(Sum), "sum"),
            (name(Product), "product"),
            (name(Min), "least"),
            (name(Max), "greatest"),
            (name(And), "and"),
            (name(Or), "or"),
            (name(Xor), "exclusive or"),
            (
                name(Commutative(first)),
                "the program's own operation in any order",
            ),
            (name(InOrder(first)), "the program's own operation in order"),
        ] {
            assert_eq!(name, expected);
        }
    }

    #[test]
    fn integers_wrap_and_nan_is_no_least_one() {
        assert_eq!(Sum.combine(255_u8, 2), 1);
        assert_eq!(Min.combine(f64::NAN, 2.0), 2.0);
        assert_eq!(Xor.combine(6_i16, 3), 5);
    }
}
