//! Fewer faults with the same failure: delta debugging over a schedule's fault list.

/// Leaves out of `all` whatever is not needed for `fails`: first halves, then ever smaller parts, down
/// to single ones. `fails` is asked with what would be left, in order.
pub fn shrink<T: Copy>(all: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut left = all.to_vec();
    let mut parts = 2;
    while !left.is_empty() {
        let length = left.len().div_ceil(parts);
        let smaller = (0..left.len()).step_by(length).find_map(|start| {
            let end = (start + length).min(left.len());
            let rest = [&left[..start], &left[end..]].concat();
            fails(&rest).then_some(rest)
        });
        match smaller {
            Some(rest) => {
                left = rest;
                parts = parts.saturating_sub(1).max(2);
            }
            None if length == 1 => break,
            None => parts = (2 * parts).min(left.len()),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        let all: Vec<u32> = (0..100).collect();
        let mut asked = 0;
        let left = shrink(&all, |rest| {
            asked += 1;
            [17, 18, 93].iter().all(|needed| rest.contains(needed))
        });
        assert_eq!(left, [17, 18, 93]);
        assert!(asked < 200, "{asked}");
    }

    #[test]
    fn nothing_is_left_of_what_always_fails_and_all_of_what_needs_all() {
        assert_eq!(shrink(&[1, 2, 3], |_| true), Vec::<u32>::new());
        assert_eq!(shrink(&[1, 2, 3], |rest| rest.len() == 3), [1, 2, 3]);
    }
}
