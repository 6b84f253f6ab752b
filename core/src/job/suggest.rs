//! "Did you mean": the known name that is nearest to one that is not known.

/// The nearest of `known`, if it is near enough to be meant: at most a third of its letters differ.
/// Of two that are equally near, the first.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance; names longer than 64 characters are like nothing.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    if left.len() > 64 || right.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("bacth", "batch"), 2);
        assert_eq!(distance(&"x".repeat(65), "x"), usize::MAX);
    }

    #[test]
    fn only_a_near_name_is_meant() {
        let known = ["seed", "batch", "epochs", "steps"];
        assert_eq!(nearest("bacth", known.into_iter()), Some("batch"));
        assert_eq!(nearest("epoch", known.into_iter()), Some("epochs"));
        assert_eq!(nearest("learning_rate", known.into_iter()), None);
    }
}
