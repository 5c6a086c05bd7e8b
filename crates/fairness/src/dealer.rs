//! Shuffle sharding: a flow's hash deals it a hand of queues.
//!
//! Two flows rarely have the same hand, so a flow that fills its queues leaves others at least one of theirs.

/// Bits of a hash that a deal may use, so that the last card is almost uniformly distributed.
const HASH_BITS_MAX: f64 = 60.0;
/// Largest hand: fifteen cards of a deck of sixteen use sixty bits.
pub(crate) const HAND_MAX: usize = 15;
/// Largest deck.
const DECK_MAX: u32 = 1 << 26;

/// Deals hands of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealer {
    deck: u32,
    hand: u32,
}

/// Reason why there is no dealer for these numbers of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DealerError {
    /// One of the numbers is zero.
    #[error("deckSize {deck} or handSize {hand} is not positive")]
    Empty {
        /// Number of queues.
        deck: u32,
        /// Queues of a flow.
        hand: u32,
    },
    /// The hand is larger than the deck.
    #[error("handSize {hand} is greater than deckSize {deck}")]
    HandTooLarge {
        /// Number of queues.
        deck: u32,
        /// Queues of a flow.
        hand: u32,
    },
    /// The deck is too large.
    #[error("deckSize {0} is impractically large")]
    DeckTooLarge(u32),
    /// A deal would need more bits than a hash has.
    #[error("required entropy bits of deckSize {deck} and handSize {hand} is greater than 60")]
    TooManyBits {
        /// Number of queues.
        deck: u32,
        /// Queues of a flow.
        hand: u32,
    },
}

impl Dealer {
    /// Creates a dealer of `hand` cards from a deck of `deck`.
    ///
    /// # Errors
    /// If the numbers are out of bounds.
    pub fn new(deck: u32, hand: u32) -> Result<Dealer, DealerError> {
        if deck == 0 || hand == 0 {
            return Err(DealerError::Empty { deck, hand });
        }
        if hand > deck {
            return Err(DealerError::HandTooLarge { deck, hand });
        }
        if deck > DECK_MAX {
            return Err(DealerError::DeckTooLarge(deck));
        }
        let bits = (f64::from(deck).log2() * f64::from(hand)).ceil();
        if bits > HASH_BITS_MAX || hand as usize > HAND_MAX && deck > 1 {
            return Err(DealerError::TooManyBits { deck, hand });
        }
        Ok(Dealer { deck, hand })
    }

    /// Deals the cards of a hash into `hand`, and returns them: distinct numbers below the deck size.
    pub fn deal<'a>(&self, mut hash: u64, hand: &'a mut [u32; HAND_MAX]) -> &'a [u32] {
        let size = self.hand as usize;
        for (i, card) in hand[..size].iter_mut().enumerate() {
            let left = u64::from(self.deck) - i as u64;
            // Below the deck size, so it fits.
            *card = (hash % left) as u32;
            hash /= left;
        }
        // Remainder i counts the cards that are left after i deals: skip those that were dealt before, newest first.
        let remainders = *hand;
        for i in 0..size {
            let dealt_before = remainders[..i].iter().rev();
            hand[i] = dealt_before.fold(remainders[i], |card, before| card + u32::from(card >= *before));
        }
        &hand[..size]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn hand(dealer: Dealer, hash: u64) -> Vec<u32> {
        dealer.deal(hash, &mut [0; HAND_MAX]).to_vec()
    }

    #[test]
    fn numbers_out_of_bounds_are_rejected_with_upstreams_messages() {
        let message = |deck, hand| Dealer::new(deck, hand).unwrap_err().to_string();
        assert_eq!(message(0, 1), "deckSize 0 or handSize 1 is not positive");
        assert_eq!(message(5, 6), "handSize 6 is greater than deckSize 5");
        assert_eq!(message((1 << 26) + 1, 2), "deckSize 67108865 is impractically large");
        assert_eq!(
            message(512, 8),
            "required entropy bits of deckSize 512 and handSize 8 is greater than 60"
        );
        for (deck, hand) in [(1, 1), (128, 6), (64, 6), (16, 4), (1 << 26, 2), (16, 15), (15, 15)] {
            assert!(Dealer::new(deck, hand).is_ok(), "{deck} {hand}");
        }
    }

    #[test]
    fn hand_of_upstreams_example_is_dealt() {
        // Hash 14 + 128·73 + 128·127·118 + 128·127·126·26 has these remainders.
        let dealer = Dealer::new(128, 4).unwrap();
        let hash = 14 + 128 * (73 + 127 * (118 + 126 * 26));
        let dealt = hand(dealer, hash);
        assert_eq!(dealt[0], 14);
        assert_eq!(dealt.iter().collect::<BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn every_sequence_of_distinct_cards_is_dealt_equally_often() {
        let dealer = Dealer::new(5, 3).unwrap();
        let mut counts: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for hash in 0..600 {
            *counts.entry(hand(dealer, hash)).or_default() += 1;
        }
        assert_eq!(counts.len(), 5 * 4 * 3);
        assert!(counts.values().all(|count| *count == 10), "{counts:?}");
        assert!(counts.keys().all(|cards| cards.iter().collect::<BTreeSet<_>>().len() == 3));
    }
}
