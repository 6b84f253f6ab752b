//! What members say about one leaf, and what follows from it: a pure count.

use crate::id::Incarnation;
use crate::sorted::SortedMap;

/// Evaluations of a leaf that are remembered for a member: its own and one more.
const EVALUATIONS: usize = 4;

/// The digests that each member's evaluations had, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Opinions(SortedMap<Incarnation, Vec<[u8; 32]>>);

/// What the opinions on a leaf come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// One member has spoken.
    Open,
    /// All evaluations, of two members or more, have the same bits.
    Agreed,
    /// They differ, and as many say one thing as another.
    Tied,
    /// Most evaluations have the same bits: these members had others.
    Wrong(Vec<Incarnation>),
}

impl Opinions {
    /// Takes a member's evaluation in, unless it is known.
    pub(super) fn add(&mut self, by: Incarnation, evaluations: u32, digest: [u8; 32]) {
        let known = self.0.entry(by).or_default();
        if known.len() < evaluations as usize && known.len() < EVALUATIONS {
            known.push(digest);
        }
    }

    /// How many evaluations of a member are known.
    pub(super) fn count(&self, member: Incarnation) -> u32 {
        let known = self.0.get(&member).map_or(0, Vec::len);
        u32::try_from(known).expect("at most EVALUATIONS")
    }

    /// Who has spoken.
    pub(super) fn members(&self) -> Vec<Incarnation> {
        self.0.keys().copied().collect()
    }

    /// Each evaluation is a voice: a member that gives two answers speaks against itself.
    pub(super) fn judge(&self) -> Judgement {
        let mut voices: SortedMap<[u8; 32], u32> = SortedMap::new();
        for digest in self.0.values().flatten() {
            *voices.entry(*digest).or_default() += 1;
        }
        if voices.len() < 2 {
            return if self.0.len() < 2 {
                Judgement::Open
            } else {
                Judgement::Agreed
            };
        }
        let most = voices.values().max().copied().unwrap_or(0);
        let mut leading = voices.iter().filter(|(_, count)| **count == most);
        let (Some((digest, _)), None) = (leading.next(), leading.next()) else {
            return Judgement::Tied;
        };
        let differs = |said: &Vec<[u8; 32]>| said.iter().any(|other| other != digest);
        let wrong = self.0.iter().filter(|(_, said)| differs(said));
        Judgement::Wrong(wrong.map(|(member, _)| *member).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(said: &[(u32, u8)]) -> Judgement {
        let mut opinions = Opinions::default();
        for (number, byte) in said {
            let member = member(*number);
            opinions.add(member, opinions.count(member) + 1, [*byte; 32]);
        }
        opinions.judge()
    }

    fn member(number: u32) -> Incarnation {
        Incarnation { reign: 1, number }
    }

    fn wrong(numbers: &[u32]) -> Judgement {
        Judgement::Wrong(numbers.iter().copied().map(member).collect())
    }

    #[test]
    fn two_that_agree_are_enough_and_a_third_decides() {
        assert_eq!(judge(&[(1, 7)]), Judgement::Open);
        assert_eq!(judge(&[(1, 7), (1, 7)]), Judgement::Open);
        assert_eq!(judge(&[(1, 7), (2, 7)]), Judgement::Agreed);
        assert_eq!(judge(&[(1, 8), (2, 7)]), Judgement::Tied);
        assert_eq!(judge(&[(1, 8), (2, 7), (3, 7)]), wrong(&[1]));
        assert_eq!(judge(&[(1, 7), (2, 8), (3, 7)]), wrong(&[2]));
        assert_eq!(judge(&[(1, 7), (2, 8), (3, 9)]), Judgement::Tied);
    }

    #[test]
    fn of_two_the_one_that_gives_two_answers_is_wrong() {
        assert_eq!(judge(&[(1, 8), (2, 7), (1, 7)]), wrong(&[1]));
        assert_eq!(judge(&[(1, 8), (2, 7), (1, 7), (2, 7)]), wrong(&[1]));
        assert_eq!(judge(&[(1, 8), (2, 7), (1, 8), (2, 7)]), Judgement::Tied);
        assert_eq!(judge(&[(1, 7), (2, 7), (1, 8)]), wrong(&[1]));
    }

    #[test]
    fn a_report_that_is_repeated_is_one_voice() {
        let mut opinions = Opinions::default();
        for _ in 0..3 {
            opinions.add(member(1), 1, [8; 32]);
        }
        opinions.add(member(2), 1, [7; 32]);
        assert_eq!(opinions.judge(), Judgement::Tied);
        assert_eq!(opinions.count(member(1)), 1);
    }
}
