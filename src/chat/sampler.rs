//! Choosing the next token from its logits: the most probable one, or a draw. In f64 with a portable `exp`, so that a
//! seed gives the same tokens on every machine.

use super::draws::Draws;
use super::sampling::{Draw, Sampling, SamplingError};

/// So many of the most probable tokens are put in order first; mostly they are enough.
const FIRST: usize = 64;

/// Chooses the tokens of one turn.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    draws: Draws,
    /// Probability of each token, and the tokens by falling probability; kept to be used again.
    probabilities: Vec<f64>,
    order: Vec<u32>,
}

impl Sampler {
    /// For the answer number `turn` of a conversation, counted from 1.
    pub fn new(sampling: Sampling, turn: u64) -> Self {
        let seed = match sampling {
            Sampling::Greedy => 0,
            Sampling::Draw(draw) => draw.seed,
        };
        Self {
            sampling,
            draws: Draws::new(seed, turn),
            probabilities: Vec::new(),
            order: Vec::new(),
        }
    }

    /// The next token for a row of logits. A draw takes one number of the generator; nothing else does.
    ///
    /// # Errors
    /// The row is empty, or the settings are outside their bounds.
    pub fn next(&mut self, logits: &[f32]) -> Result<u32, SamplingError> {
        if let Sampling::Draw(draw) = &self.sampling {
            draw.check()?;
        }
        let best = greatest(logits).ok_or(SamplingError::NoLogits)?;
        let Sampling::Draw(draw) = self.sampling else {
            return Ok(best);
        };
        match self.weigh(logits, best, draw.temperature) {
            true => Ok(self.draw(&draw)),
            false => Ok(best),
        }
    }

    /// Probabilities: the softmax of logits over temperature, summed in ascending order. False where there are none,
    /// because a logit is infinite or no number.
    fn weigh(&mut self, logits: &[f32], best: u32, temperature: f64) -> bool {
        let scaled = |logit: f32| f64::from(logit) / temperature;
        let top = scaled(logits[best as usize]);
        self.probabilities.clear();
        let exps = logits.iter().map(|&logit| libm::exp(scaled(logit) - top));
        self.probabilities.extend(exps);
        let sum = self.probabilities.iter().fold(0.0, |sum, p| sum + p);
        if !(f64::is_finite(sum) && sum > 0.0) {
            return false;
        }
        self.probabilities.iter_mut().for_each(|p| *p /= sum);
        true
    }

    /// Draws among the most probable tokens: by falling probability, the lower id first among equals, as many as
    /// reach top-p together, the one that crosses it included.
    fn draw(&mut self, draw: &Draw) -> u32 {
        let Self {
            probabilities,
            order,
            draws,
            ..
        } = self;
        let before = |a: &u32, b: &u32| {
            let (p, q) = (probabilities[*a as usize], probabilities[*b as usize]);
            q.total_cmp(&p).then(a.cmp(b))
        };
        order.clear();
        order.extend(0..probabilities.len() as u32);
        let window = match draw.top_k {
            Some(k) if 0 < k && k < order.len() => k,
            _ => order.len(),
        };
        // The order is made as far as it is needed, in growing portions: a whole sort takes far longer than all else.
        let (mut taken, mut sorted, mut portion, mut keep) = (0, 0, FIRST, 0.0);
        while taken < window && keep < draw.top_p {
            if taken == sorted {
                let rest = &mut order[sorted..];
                let count = portion.min(rest.len());
                if count < rest.len() {
                    rest.select_nth_unstable_by(count, before);
                }
                rest[..count].sort_unstable_by(before);
                sorted += count;
                portion *= 8;
            }
            keep += probabilities[order[taken] as usize];
            taken += 1;
        }
        let mark = draws.unit() * keep;
        let mut passed = 0.0;
        let drawn = order[..taken].iter().find(|&&id| {
            passed += probabilities[id as usize];
            mark < passed
        });
        // Where rounding leaves the mark beyond the last sum, the last one is meant. At least one is always taken.
        drawn.copied().unwrap_or(order[taken - 1])
    }
}

/// The first of the greatest values. One that is no number is never greater than another, and nothing is greater than
/// it, so it wins in the first place alone.
fn greatest(logits: &[f32]) -> Option<u32> {
    let (first, rest) = logits.split_first()?;
    let start = (0, *first);
    let (best, _) = (1..).zip(rest).fold(
        start,
        |best, (id, &logit)| {
            if logit > best.1 { (id, logit) } else { best }
        },
    );
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn draws(sampling: Sampling, turn: u64, logits: &[f32], count: usize) -> Vec<u32> {
        let mut sampler = Sampler::new(sampling, turn);
        (0..count).map(|_| sampler.next(logits).unwrap()).collect()
    }

    fn with(temperature: f64, top_p: f64, top_k: Option<usize>, seed: u64) -> Sampling {
        Sampling::Draw(Draw {
            temperature,
            top_p,
            top_k,
            seed,
        })
    }

    #[test]
    fn the_first_draws_of_two_seeds() {
        let logits = [0.0, 1.0, 2.0, 3.0];
        assert_eq!(
            draws(with(0.7, 0.9, None, 1234), 5, &logits, 21),
            [
                3, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3, 2
            ]
        );
        assert_eq!(
            draws(with(1.0, 0.95, None, 42), 2, &logits, 11),
            [3, 2, 3, 3, 3, 1, 3, 3, 2, 3, 1]
        );
    }

    #[test]
    fn greedy_takes_the_first_greatest_and_no_number() {
        let mut sampler = Sampler::new(Sampling::Greedy, 1);
        let before = sampler.draws.clone();
        for (logits, best) in [
            (&[1.0, 3.0, 3.0][..], 1),
            (&[f32::NAN, 5.0], 0),
            (&[1.0, f32::NAN, 2.0], 2),
            (&[f32::NEG_INFINITY; 3], 0),
        ] {
            assert_eq!(sampler.next(logits), Ok(best), "{logits:?}");
        }
        assert_eq!(sampler.draws, before);
    }

    /// What cannot be weighed gives the greatest, and takes no number of the generator.
    #[test]
    fn the_edges() {
        let mut sampler = Sampler::new(with(1.0, 1.0, None, 7), 1);
        let before = sampler.draws.clone();
        for (logits, best) in [
            (&[1.0, f32::INFINITY, 2.0][..], 1),
            (&[f32::NEG_INFINITY; 4], 0),
            (&[f32::NAN, 1.0], 0),
            (&[1.0, f32::NAN, 3.0], 2),
        ] {
            assert_eq!(sampler.next(logits), Ok(best), "{logits:?}");
            assert_eq!(sampler.draws, before, "{logits:?}");
        }
        // One token is drawn, and that takes a number.
        assert_eq!(sampler.next(&[-3.0]), Ok(0));
        assert_ne!(sampler.draws, before);
        assert_eq!(sampler.next(&[]), Err(SamplingError::NoLogits));

        // Masked tokens, and those whose probability underflows, are never drawn.
        let masked = [0.0, -1e30, 0.5, f32::NEG_INFINITY, -800.0];
        let drawn = draws(with(1.0, 1.0, None, 3), 1, &masked, 20_000);
        assert!(drawn.iter().all(|id| [0, 2].contains(id)));
        assert!(drawn.contains(&0) && drawn.contains(&2));
    }

    #[test]
    fn settings_outside_their_bounds_choose_nothing() {
        for (temperature, top_p) in [(0.0, 0.9), (f64::NAN, 0.9), (1.0, 0.0), (1.0, 1.5)] {
            let mut sampler = Sampler::new(with(temperature, top_p, None, 1), 1);
            assert!(sampler.next(&[1.0]).is_err(), "{temperature} {top_p}");
        }
    }

    #[test]
    fn top_k_and_a_tiny_top_p_leave_few() {
        let logits = [1.0, 1.0, 1.0, 1.0];
        let two = draws(with(1.0, 1.0, Some(2), 1), 1, &logits, 200);
        assert!(two.iter().all(|&id| id < 2) && two.contains(&0) && two.contains(&1));
        assert!(
            draws(with(1.0, 1e-9, None, 1), 1, &logits, 50)
                .iter()
                .all(|&id| id == 0)
        );
        let all = draws(with(1.0, 1.0, Some(4), 1), 1, &logits, 200);
        assert_eq!(all, draws(with(1.0, 1.0, Some(0), 1), 1, &logits, 200));
        assert!((0..4).all(|id| all.contains(&id)));
    }

    /// The rules as they are written, over a whole sort.
    fn plain(logits: &[f32], draw: &Draw, draws: &mut Draws) -> u32 {
        let mut best = 0;
        for id in 1..logits.len() {
            if logits[id] > logits[best] {
                best = id;
            }
        }
        let top = f64::from(logits[best]) / draw.temperature;
        let mut p: Vec<f64> = logits
            .iter()
            .map(|&l| libm::exp(f64::from(l) / draw.temperature - top))
            .collect();
        let mut sum = 0.0;
        for p in &p {
            sum += p;
        }
        if !sum.is_finite() || sum <= 0.0 {
            return best as u32;
        }
        for p in &mut p {
            *p /= sum;
        }
        let mut order: Vec<usize> = (0..p.len()).collect();
        // Stable: equal ones stay in order of their ids.
        order.sort_by(|&a, &b| p[b].partial_cmp(&p[a]).unwrap());
        let window = match draw.top_k {
            Some(k) if k > 0 => k.min(p.len()),
            _ => p.len(),
        };
        let (mut keep, mut taken) = (0.0, Vec::new());
        for &id in &order[..window] {
            if keep >= draw.top_p {
                break;
            }
            keep += p[id];
            taken.push(id);
        }
        let mark = draws.unit() * keep;
        let mut passed = 0.0;
        for &id in &taken {
            passed += p[id];
            if mark < passed {
                return id as u32;
            }
        }
        taken[taken.len() - 1] as u32
    }

    fn logit() -> impl Strategy<Value = f32> {
        prop_oneof![
            6 => -20.0_f32..20.0,
            // Ties.
            6 => (-3_i8..3).prop_map(f32::from),
            1 => Just(-1e30_f32),
            1 => Just(-750.0_f32),
            1 => Just(f32::NEG_INFINITY),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_partial_order_draws_what_a_whole_sort_does(
            mut logits in prop::collection::vec(logit(), 1..700),
            odd in prop::option::weighted(0.1, (any::<prop::sample::Index>(), prop_oneof![Just(f32::NAN), Just(f32::INFINITY)])),
            temperature in 0.05_f64..4.0,
            top_p in prop_oneof![Just(1.0), 0.001_f64..1.0],
            top_k in prop::option::of(0_usize..800),
            seed: u64,
        ) {
            if let Some((at, value)) = odd {
                let at = at.index(logits.len());
                logits[at] = value;
            }
            let draw = Draw { temperature, top_p, top_k, seed };
            let mut sampler = Sampler::new(Sampling::Draw(draw), 3);
            let mut draws = Draws::new(seed, 3);
            for _ in 0..5 {
                prop_assert_eq!(sampler.next(&logits), Ok(plain(&logits, &draw, &mut draws)));
            }
            prop_assert_eq!(sampler.draws, draws);
        }
    }
}
