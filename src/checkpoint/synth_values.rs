//! The values of synthetic weights: seeded, the same for a tensor's name whatever else is written, and in a range in
//! which the network neither saturates nor dies.

use super::config::{Config, MoeShape};
use super::header::Dtype;
use super::layout::{Entry, Kind};
use super::names::{self, ExpertPart};

/// How a tensor is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    /// Evenly from `centre - half` to `centre + half`.
    Uniform { centre: f32, half: f32 },
    /// Convolution taps, `taps` a channel: the newest about 0.7, the others about 0.
    Taps { taps: usize },
    /// Log decay rates from 0 to 1.2 for the first `heads` values, then zeros.
    Rates { heads: usize },
    /// Any bytes: FP4 pairs, of which every one is a number.
    Pairs,
    /// E8M0 scales: `middle`, or one less, or one more.
    Scales { middle: u8 },
}

impl Fill {
    /// For a tensor outside the routed experts.
    pub(super) fn of(entry: &Entry, config: &Config) -> Fill {
        let is = |suffix: &str| entry.name.ends_with(suffix);
        let width = entry.shape.last().copied().unwrap_or(1);
        if entry.name == names::EMBEDDING {
            // Larger than the matrices, so that tokens still differ after the first layers have added to them.
            return Fill::spread(0.5);
        }
        if entry.kind == Kind::Matrix {
            return Fill::spread(1.0 / (width as f32).sqrt());
        }
        if is(names::A_LOG) {
            Fill::Rates {
                heads: config.kda.heads,
            }
        } else if is(names::DT_BIAS) {
            Fill::Uniform {
                centre: -2.0,
                half: 2.0,
            }
        } else if [names::Q_CONV, names::K_CONV, names::V_CONV]
            .into_iter()
            .any(is)
        {
            Fill::Taps {
                taps: config.kda.conv_kernel,
            }
        } else if is(names::ROUTER_BIAS) {
            Fill::Uniform {
                centre: 0.0,
                half: 0.05,
            }
        } else if entry.shape.len() == 2 {
            // Scores of the attention residual: apart, but no source alone.
            Fill::spread(0.5 / (width as f32).sqrt())
        } else {
            Fill::Uniform {
                centre: 1.0,
                half: 0.2,
            }
        }
    }

    /// For a tensor of a routed expert.
    pub(super) fn of_expert(part: ExpertPart, moe: &MoeShape) -> Fill {
        let fan_in = match part {
            ExpertPart::W1Packed | ExpertPart::W2Packed | ExpertPart::W3Packed => {
                return Fill::Pairs;
            }
            ExpertPart::W1Scale | ExpertPart::W3Scale => moe.latent,
            ExpertPart::W2Scale => moe.inner,
        };
        // The sixteen FP4 values have a mean square of 8.5625. The scale is the power of two that brings their
        // deviation nearest below 1.5 / sqrt(fan_in); products and roots of f64 are exact enough to be the same
        // on every machine.
        let wanted = 1.5 / (8.5625 * fan_in as f64).sqrt();
        let (mut scale, mut middle) = (1.0, 127);
        while scale > wanted && middle > 1 {
            scale *= 0.5;
            middle -= 1;
        }
        Fill::Scales { middle }
    }

    /// Evenly around zero with this standard deviation.
    fn spread(deviation: f32) -> Fill {
        Fill::Uniform {
            centre: 0.0,
            half: deviation * 3f32.sqrt(),
        }
    }

    /// Centre and half width at one element.
    fn at(self, element: u64) -> (f32, f32) {
        match self {
            Fill::Uniform { centre, half } => (centre, half),
            Fill::Taps { taps } if element % taps as u64 == taps as u64 - 1 => (0.7, 0.2),
            Fill::Taps { .. } => (0.0, 0.2),
            Fill::Rates { heads } if element < heads as u64 => (0.6, 0.6),
            Fill::Rates { .. } | Fill::Pairs | Fill::Scales { .. } => (0.0, 0.0),
        }
    }
}

/// The values of one tensor.
pub(super) struct Values {
    key: u64,
    dtype: Dtype,
    fill: Fill,
}

impl Values {
    pub(super) fn new(name: &str, seed: u64, dtype: Dtype, fill: Fill) -> Values {
        // FNV-1a over the name, then mixed with the seed.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Values {
            key: mix(hash ^ mix(seed)),
            dtype,
            fill,
        }
    }

    /// Writes the bytes of the tensor that begin at `start`, a multiple of 8. Each 8 bytes come from one draw, by
    /// their number alone, so that pieces may be made in any order.
    pub(super) fn write(&self, start: u64, bytes: &mut [u8]) {
        let first = start / 8;
        let (words, tail) = bytes.as_chunks_mut::<8>();
        let mut word = first;
        for bytes in words {
            *bytes = self.word(word);
            word += 1;
        }
        tail.copy_from_slice(&self.word(word)[..tail.len()]);
    }

    #[inline]
    fn word(&self, number: u64) -> [u8; 8] {
        let draw = mix(self.key.wrapping_add(number));
        match (self.dtype, self.fill) {
            (Dtype::U8, Fill::Scales { middle }) => draw
                .to_le_bytes()
                .map(|byte| middle - 1 + [0, 1, 1, 2][usize::from(byte & 3)]),
            (Dtype::U8, _) => draw.to_le_bytes(),
            (Dtype::F32, fill) => {
                let mut bytes = [0; 8];
                for (lane, four) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    let (centre, half) = fill.at(number * 2 + lane as u64);
                    let unit = (draw >> (32 * lane)) as i32 as f32 / 2_147_483_648.0;
                    *four = (centre + half * unit).to_le_bytes();
                }
                bytes
            }
            (Dtype::Bf16 | Dtype::F16, fill) => {
                let (centre, half) = fill.at(number * 4);
                let mut bytes = [0; 8];
                for (lane, two) in bytes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    let unit = f32::from((draw >> (16 * lane)) as i16) / 32768.0;
                    *two = to_bf16(centre + half * unit).to_le_bytes();
                }
                bytes
            }
        }
    }
}

/// The nearest BF16, ties to even. Values here are finite and far from overflow.
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The output step of the splitmix64 generator; its state is a counter.
#[inline]
pub(crate) fn mix(counter: u64) -> u64 {
    let z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str, seed: u64, dtype: Dtype, fill: Fill) -> Vec<u8> {
        let mut bytes = vec![0; 8 * 1001 + 3];
        Values::new(name, seed, dtype, fill).write(0, &mut bytes);
        bytes
    }

    fn floats(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
        match dtype {
            Dtype::F32 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|&b| f32::from_le_bytes(b))
                .collect(),
            _ => bytes
                .as_chunks()
                .0
                .iter()
                .map(|&b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
                .collect(),
        }
    }

    #[test]
    fn pieces_give_the_same_bytes_as_the_whole() {
        let fill = Fill::Taps { taps: 3 };
        let whole = values("a", 1, Dtype::F32, fill);
        let mut pieces = vec![0; whole.len()];
        let (head, tail) = pieces.split_at_mut(8 * 100);
        let tensor = Values::new("a", 1, Dtype::F32, fill);
        tensor.write(8 * 100, tail);
        tensor.write(0, head);
        assert_eq!(whole, pieces);
    }

    #[test]
    fn name_and_seed_both_matter() {
        let base = values("a", 1, Dtype::U8, Fill::Pairs);
        assert_eq!(base, values("a", 1, Dtype::U8, Fill::Pairs));
        assert_ne!(base, values("b", 1, Dtype::U8, Fill::Pairs));
        assert_ne!(base, values("a", 2, Dtype::U8, Fill::Pairs));
    }

    #[test]
    fn uniform_values_have_the_deviation_asked_for() {
        for dtype in [Dtype::Bf16, Dtype::F32] {
            let values = floats(&values("a", 7, dtype, Fill::spread(0.125)), dtype);
            let count = values.len() as f32;
            let mean = values.iter().sum::<f32>() / count;
            let deviation = (values.iter().map(|x| x * x).sum::<f32>() / count).sqrt();
            assert!(
                mean.abs() < 0.01 && (deviation - 0.125).abs() < 0.005,
                "{dtype}: {mean} {deviation}"
            );
        }
    }

    #[test]
    fn special_vectors_have_their_shape() {
        let taps = floats(
            &values("a", 3, Dtype::F32, Fill::Taps { taps: 4 }),
            Dtype::F32,
        );
        for channel in taps.chunks_exact(4) {
            assert!(channel[..3].iter().all(|x| x.abs() <= 0.2) && (channel[3] - 0.7).abs() <= 0.2);
        }
        let rates = floats(
            &values("a", 3, Dtype::F32, Fill::Rates { heads: 5 }),
            Dtype::F32,
        );
        assert!(
            rates[..5]
                .iter()
                .all(|x| (0.0..=1.2).contains(x) && *x != 0.0)
        );
        assert!(rates[5..].iter().all(|x| *x == 0.0));
    }

    #[test]
    fn expert_scales_bring_fp4_to_one_over_root_fan_in() {
        for fan_in in [32, 96, 3072, 3584] {
            let moe = MoeShape {
                experts: 1,
                top_k: 1,
                shared: 1,
                latent: fan_in,
                inner: 64,
                scaling: 1.0,
                renormalize: true,
                latent_norm: true,
            };
            let Fill::Scales { middle } = Fill::of_expert(ExpertPart::W1Scale, &moe) else {
                panic!("no scales")
            };
            let deviation = 8.5625f64.sqrt() * 2f64.powi(i32::from(middle) - 127);
            let ratio = deviation * (fan_in as f64).sqrt();
            assert!((0.7..=1.5).contains(&ratio), "{fan_in}: {ratio}");
            let bytes = values("a", 1, Dtype::U8, Fill::Scales { middle });
            assert!(
                bytes.iter().all(|&b| b.abs_diff(middle) <= 1) && bytes.contains(&(middle + 1))
            );
        }
    }

    #[test]
    fn bf16_rounds_to_the_nearest_even() {
        assert_eq!(to_bf16(1.0), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(to_bf16(f32::from_bits(0xbf80_8001)), 0xbf81);
    }
}
