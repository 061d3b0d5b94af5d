//! How fast the kernels are on this machine, as shares of what it could do: the limits first, then products of one token
//! and of many. What comes out is figures; results are tested elsewhere.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use super::{Compute, Error, Product};
use crate::kernels::limits::{FUSED, fuse_all, read_all};
use crate::kernels::{GROUP, Results, Tokens, Weights};
use crate::stream::Buffer;

/// Bytes that are read to measure the memory.
const READ: usize = 1 << 30;
/// Bytes of weights that a sample goes through at least, so that no cache holds them.
const SAMPLE: usize = 256 << 20;
/// Repeats of a figure, taken in turns with the limit; the best counts and the middle one is told.
const REPEATS: usize = 5;
/// Products of many tokens are measured with as many.
const TOKENS: usize = 512;

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Four bytes.
    F32,
    /// Two bytes.
    Bf16,
    /// Four bits, and a byte for every 32 weights.
    Mxfp4,
}

/// A matrix to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Form of the weights.
    pub form: Form,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Tokens multiplied at once.
    pub tokens: usize,
}

impl Case {
    /// The matrices of the released model, by one token and some of them by many.
    pub fn usual() -> Vec<Self> {
        let trunk = [
            (12288, 7168),
            (7168, 12288),
            (33792, 7168),
            (6144, 7168),
            (18432, 1536),
            (163_840, 7168),
        ];
        let experts = [(3072, 3584), (3584, 3072)];
        let case = |form, tokens| {
            move |(rows, columns)| Self {
                form,
                rows,
                columns,
                tokens,
            }
        };
        let mut all: Vec<Self> = trunk.map(case(Form::Bf16, 1)).into();
        all.push(case(Form::F32, 1)((6144, 7168)));
        all.extend(experts.map(case(Form::Mxfp4, 1)));
        all.extend([2, 8, 64].map(|tokens| case(Form::Bf16, tokens)((6144, 7168))));
        all.push(case(Form::Bf16, TOKENS)((6144, 7168)));
        all.extend([8, 64, TOKENS].map(|tokens| case(Form::Mxfp4, tokens)((3072, 3584))));
        all
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        let weights = self.rows * self.columns;
        match self.form {
            Form::F32 => 4 * weights,
            Form::Bf16 => 2 * weights,
            Form::Mxfp4 => weights / 2 + weights / GROUP,
        }
    }
}

/// A case and what it took.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The case.
    pub case: Case,
    /// Seconds of one product: the best, the middle and the worst repeat.
    pub seconds: [f64; 3],
    /// Bytes a second that the memory gave in between.
    pub memory: f64,
    /// Multiply-adds a second that the processor gave in between.
    pub fused: f64,
}

impl Figure {
    /// Bytes of weights a second.
    pub fn bandwidth(&self) -> f64 {
        self.case.bytes() as f64 / self.seconds[0]
    }

    /// Multiply-adds a second.
    pub fn fused_rate(&self) -> f64 {
        (self.case.rows * self.case.columns * self.case.tokens) as f64 / self.seconds[0]
    }

    /// Share of the limit that binds it: the slower of reading its weights and multiplying them.
    pub fn share(&self) -> f64 {
        let reading = self.bandwidth() / self.memory;
        reading.max(self.fused_rate() / self.fused)
    }
}

/// Reads of memory to measure it by.
pub struct Memory(Buffer);

impl Memory {
    /// A buffer of 1 GiB, all of it resident.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Self, Error> {
        Self::of(READ)
    }

    /// A buffer of so many bytes, all of it resident.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of(bytes: usize) -> Result<Self, Error> {
        let mut buffer = Buffer::new(bytes)?;
        buffer.touch();
        Ok(Self(buffer))
    }

    /// Bytes a second of one read by all threads.
    pub fn read(&self, compute: &Compute) -> f64 {
        let bytes = self.0.as_slice();
        let seconds = time(|| {
            compute.run(|| {
                let parts = bytes.par_chunks(1 << 20);
                let sum = parts.map(|part| read_all(compute.isa, part));
                black_box(sum.reduce(|| 0, u64::wrapping_add));
            });
        });
        bytes.len() as f64 / seconds
    }
}

/// Multiply-adds a second of all threads.
pub fn fused_rate(compute: &Compute) -> f64 {
    const VALUES: usize = 256;
    const TIMES: usize = 1 << 16;
    let threads = compute.threads();
    let seconds = time(|| {
        compute.run(|| {
            (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
                let values = black_box([0.5; VALUES]);
                black_box(fuse_all(compute.isa, &values, TIMES));
            });
        });
    });
    (threads * VALUES / 2 * TIMES * FUSED) as f64 / seconds
}

/// Rates that the time of a token hangs on, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRates {
    /// What memory gives to all threads.
    pub memory: f64,
    /// bf16 weights multiplied by one token.
    pub bf16: f64,
    /// MXFP4 weights multiplied by one token.
    pub mxfp4: f64,
}

/// Measures what a token is computed at, in about a second. `bytes` of memory are taken twice, one after the other; they
/// should be more than any cache holds. The best of a few repeats counts: what else runs only makes it less.
///
/// # Errors
/// There is no memory.
pub fn token_rates(compute: &Compute, bytes: usize) -> Result<TokenRates, Error> {
    let memory = {
        let memory = Memory::of(bytes)?;
        best(|| memory.read(compute))
    };
    let rate = |form| -> Result<f64, Error> {
        let case = Case {
            form,
            rows: 3072,
            columns: 3584,
            tokens: 1,
        };
        let product = Products::sized(case, bytes.div_ceil(case.bytes()))?;
        Ok(best(|| case.bytes() as f64 / product.run(compute)))
    };
    Ok(TokenRates {
        memory,
        bf16: rate(Form::Bf16)?,
        mxfp4: rate(Form::Mxfp4)?,
    })
}

/// The highest of a few figures; of fewer where one takes long, as on a processor without fused instructions.
fn best(mut figure: impl FnMut() -> f64) -> f64 {
    /// Nothing more is begun after so long.
    const LONG: f64 = 0.5;
    let started = Instant::now();
    let mut best = 0.0_f64;
    for _ in 0..REPEATS {
        best = best.max(figure());
        if started.elapsed().as_secs_f64() > LONG {
            break;
        }
    }
    best
}

/// Measures cases, the limits in turns with each.
///
/// # Errors
/// There is no memory for the weights.
pub fn figures(
    compute: &Compute,
    cases: &[Case],
    mut done: impl FnMut(&Figure),
) -> Result<Vec<Figure>, Error> {
    let memory = Memory::new()?;
    let mut figures = Vec::new();
    for case in cases {
        let product = Products::new(*case)?;
        let mut seconds = Vec::new();
        let (mut read, mut fused) = (0.0f64, 0.0f64);
        for _ in 0..REPEATS {
            read = read.max(memory.read(compute));
            fused = fused.max(fused_rate(compute));
            seconds.push(product.run(compute));
        }
        read = read.max(memory.read(compute));
        seconds.sort_unstable_by(f64::total_cmp);
        let figure = Figure {
            case: *case,
            seconds: [seconds[0], seconds[REPEATS / 2], seconds[REPEATS - 1]],
            memory: read,
            fused,
        };
        done(&figure);
        figures.push(figure);
    }
    Ok(figures)
}

/// One matrix or several alike, so that together they are larger than any cache.
struct Products {
    case: Case,
    weights: Stored,
    copies: usize,
}

enum Stored {
    Bytes(Buffer),
    Floats(Vec<f32>),
}

impl Products {
    fn new(case: Case) -> Result<Self, Error> {
        let copies = match case.tokens {
            1 => SAMPLE.div_ceil(case.bytes()),
            _ => 1,
        };
        Self::sized(case, copies)
    }

    /// So many copies of the matrix.
    fn sized(case: Case, copies: usize) -> Result<Self, Error> {
        let bytes = copies * case.bytes();
        let weights = match case.form {
            Form::F32 => {
                let float = |i: usize| (i % 67) as f32 / 67.0 - 0.5;
                Stored::Floats((0..bytes / 4).map(float).collect())
            }
            _ => {
                let mut buffer = Buffer::new(bytes)?;
                fill(buffer.as_mut_slice());
                Stored::Bytes(buffer)
            }
        };
        Ok(Self {
            case,
            weights,
            copies,
        })
    }

    fn matrix(&self, copy: usize) -> Weights<'_> {
        let Case { rows, columns, .. } = self.case;
        let (weights, bytes) = (rows * columns, self.case.bytes());
        match (&self.weights, self.case.form) {
            (Stored::Floats(all), _) => Weights::F32(&all[copy * weights..][..weights]),
            (Stored::Bytes(all), Form::Mxfp4) => {
                let (packed, scales) =
                    all.as_slice()[copy * bytes..][..bytes].split_at(weights / 2);
                Weights::Mxfp4 { packed, scales }
            }
            (Stored::Bytes(all), _) => {
                Weights::Bf16(all.as_slice()[copy * bytes..][..bytes].as_chunks().0)
            }
        }
    }

    /// Seconds of one product.
    fn run(&self, compute: &Compute) -> f64 {
        let Case {
            rows,
            columns,
            tokens,
            ..
        } = self.case;
        let x: Vec<f32> = (0..tokens * columns)
            .map(|i| (i % 61) as f32 / 61.0 - 0.5)
            .collect();
        let mut y = vec![0.0; rows * tokens];
        let tokens = Tokens::new(&x, columns);
        let seconds = time(|| {
            compute.run(|| {
                for copy in 0..self.copies {
                    compute.multiply([Product {
                        weights: self.matrix(copy),
                        x: &tokens,
                        y: Results::new(&mut y, tokens.count()),
                    }]);
                }
            });
        });
        black_box(&y);
        seconds / self.copies as f64
    }
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Weights that are neither subnormal nor infinite, whatever they are read as.
fn fill(bytes: &mut [u8]) {
    let mut state = 1u64;
    for word in bytes.as_chunks_mut::<8>().0 {
        // A linear congruential step, Knuth's constants.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Pairs of bytes with a bf16 exponent of -7 to 0; single ones are scales far from both ends.
        let sane = state & 0xbfff_bfff_bfff_bfff | 0x3c40_3c40_3c40_3c40;
        *word = sane.to_le_bytes();
    }
}
