//! What every layer computes with: the threads, the instruction set, and the products of a stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::Error;
use crate::kernels::{self, Isa, Results, Tokens, Unplaced, Weights};
use crate::stream::{
    Error as StreamError, Experts, Kernel, KernelMeter, Space, StageId, Trunk, Workspace,
};
use crate::system;

/// Threads and instruction set. Neither changes a bit of any result.
pub struct Compute {
    pool: rayon::ThreadPool,
    /// What the kernels run with.
    pub isa: Isa,
    /// Where layers keep what they compute.
    pub(super) workspace: Workspace,
    /// Where the time that they take is added up.
    pub(super) meter: Arc<KernelMeter>,
}

/// Where a pass gets its weights from.
pub struct Sources<'a> {
    /// Everything outside the experts.
    pub trunk: &'a mut dyn Trunk,
    /// The routed experts.
    pub experts: &'a mut dyn Experts,
}

/// A product to be made: `y[t][r] = Σ_c w[r][c] x[t][c]`.
pub struct Product<'a> {
    /// The weights, `[rows][columns]`.
    pub weights: Weights<'a>,
    /// Input.
    pub x: &'a Tokens<'a>,
    /// Output.
    pub y: Results<'a>,
}

/// Tokens that go through a matrix of a stage, and the place of its results, `[tokens][rows of the matrix]`.
pub type Through<'a, 'x> = (&'a Tokens<'x>, &'a mut [f32]);

/// Weights of one task where there is one token: large enough that handing it out costs nothing, small enough that threads
/// end together.
const TASK_BYTES: usize = 128 << 10;
/// For how long a thread without work looks for more. Parts of a layer that one thread computes take less, and waking up takes
/// a quarter of it.
const AWAKE: Duration = Duration::from_micros(200);
/// Multiply-adds of one task where there are several tokens.
const TASK_FUSED: usize = 4 << 20;

impl Compute {
    /// A pool of `threads` of its own.
    ///
    /// # Errors
    /// The system refuses the threads.
    pub fn new(threads: usize, isa: Isa) -> Result<Self, Error> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("k3-compute-{i}"))
            .build()
            .map_err(|e| Error::Threads {
                threads,
                cause: e.to_string(),
            })?;
        Ok(Self {
            pool,
            isa,
            workspace: Workspace::default(),
            meter: Arc::default(),
        })
    }

    /// Threads of the pool.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Lowers the priority of its threads below that of the others of the process, where the system knows priorities of
    /// threads.
    pub fn give_way(&self) {
        self.pool.broadcast(|_| system::give_way());
    }

    /// Runs `work` inside the pool, so that its parallel loops use these threads. The others stay awake for it as long as it
    /// keeps them busy.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(|| {
            let ended = AtomicBool::new(false);
            let me = rayon::current_thread_index();
            rayon::scope(|scope| {
                scope.spawn_broadcast(|_, thread| {
                    if Some(thread.index()) != me {
                        stay_awake(&ended);
                    }
                });
                let result = work();
                ended.store(true, Relaxed);
                result
            })
        })
    }

    /// Makes several products together: cut into tasks of whole rows, all of them handed out at once.
    pub fn multiply<'a>(&self, products: impl IntoIterator<Item = Product<'a>>) {
        let (mut tasks, mut fused) = (Vec::new(), 0);
        for product in products {
            fused += product.y.rows() * product.x.columns() * product.x.count();
            product.cut(&mut tasks);
        }
        self.meter.fused(fused as u64);
        // Each task is one to take, so that a thread that was held up keeps no others waiting.
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|p| kernels::multiply(self.isa, p.weights, p.x, p.y));
    }

    /// Room for `len` numbers; what they are before is left over from others.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn space(&self, len: usize) -> Result<Space, Error> {
        Ok(self.workspace.take(len)?)
    }

    /// Room in which [`Self::tokens`] lays out `x`.
    ///
    /// # Errors
    /// As [`Self::space`].
    pub fn room(&self, x: &[f32], columns: usize) -> Result<Space, Error> {
        self.space(Tokens::room(x.len() / columns, columns))
    }

    /// What goes through matrices: `x`, `[tokens][columns]`, laid out by all threads in [`Self::room`] for it.
    pub fn tokens<'x>(&self, x: &'x [f32], columns: usize, room: &'x mut [f32]) -> Tokens<'x> {
        self.meter.time(Kernel::Trunk, || {
            Tokens::placed_by(x, columns, room, |tiles| {
                tiles.into_par_iter().for_each(Unplaced::place);
            })
        })
    }

    /// The products of one stage, of each of its tensors in order: `y_i[t][r] = Σ_c w_i[r][c] x_i[t][c]`.
    ///
    /// # Errors
    /// The trunk fails, or does not hand out every row.
    pub fn products(
        &self,
        trunk: &mut dyn Trunk,
        stage: StageId,
        through: &mut [Through<'_, '_>],
    ) -> Result<(), Error> {
        let mut missing: usize = through.iter().map(|(_, y)| y.len()).sum();
        while let Some(pieces) = trunk.pieces(stage)? {
            let mut products = Vec::with_capacity(pieces.len());
            for (tensor, (x, y)) in through.iter_mut().enumerate() {
                let tokens = x.count();
                let mut rest = Results::new(y, tokens);
                let mut at = 0;
                for piece in pieces.iter().filter(|p| p.tensor == tensor) {
                    let (_, tail) = rest.split_at(piece.rows.start - at);
                    let (y, tail) = tail.split_at(piece.rows.len());
                    (rest, at) = (tail, piece.rows.end);
                    missing -= piece.rows.len() * tokens;
                    products.push(Product {
                        weights: piece.weights,
                        x,
                        y,
                    });
                }
            }
            self.meter.time(Kernel::Trunk, || self.multiply(products));
        }
        if missing > 0 {
            return Err(StreamError::OutOfStep {
                at: stage.0 + 1,
                asked: stage.0,
            }
            .into());
        }
        Ok(())
    }
}

impl<'a> Product<'a> {
    /// Cuts it into tasks of whole rows.
    fn cut(self, tasks: &mut Vec<Product<'a>>) {
        let Self { weights, x, mut y } = self;
        let (columns, tokens) = (x.columns(), x.count());
        let rows = match tokens {
            1 => TASK_BYTES / weights.row_bytes(columns),
            _ => TASK_FUSED / (columns * tokens),
        };
        let together = kernels::rows_together(tokens);
        let rows = rows.next_multiple_of(together).max(together);
        let mut begin = 0;
        while y.rows() > 0 {
            let end = begin + rows.min(y.rows());
            let (part, rest) = y.split_at(end - begin);
            tasks.push(Product {
                weights: weights.rows(begin..end, columns),
                x,
                y: part,
            });
            (begin, y) = (end, rest);
        }
    }
}

/// The last `wanted` tokens of `x`, `[tokens][columns]`, by themselves; nothing where they are all.
pub(super) fn last_apart(x: &[f32], columns: usize, wanted: usize) -> Option<Tokens<'_>> {
    let from = x.len() - wanted * columns;
    (from > 0).then(|| Tokens::new(&x[from..], columns))
}

/// Takes part in whatever there is to do until `ended`, or until there was nothing for so long that waking up again costs
/// less than looking on: while a layer waits for the drive, say.
fn stay_awake(ended: &AtomicBool) {
    let mut idle = None;
    while !ended.load(Relaxed) {
        match rayon::yield_now() {
            Some(rayon::Yield::Idle) | None => {
                let since = *idle.get_or_insert_with(Instant::now);
                if since.elapsed() > AWAKE {
                    break;
                }
                // Where there are more threads than cores, another has the core meanwhile.
                std::thread::yield_now();
            }
            Some(rayon::Yield::Executed) => idle = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_were_kept_awake_are_free_again_when_the_work_is_through() {
        for threads in [1, 2, 5] {
            let compute = Compute::new(threads, Isa::portable()).unwrap();
            let sum = compute.run(|| (0..1000).into_par_iter().sum::<usize>());
            assert_eq!(sum, 499_500);
            // Each thread has to come for it.
            let came = compute.pool.broadcast(|thread| thread.index());
            assert_eq!(came, (0..threads).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_product_is_the_same_however_it_is_cut() {
        let (rows, columns) = (700, 130);
        let w: Vec<f32> = (0..rows * columns)
            .map(|i| ((i * 29 % 113) as f32 - 56.0) / 31.0)
            .collect();
        let x: Vec<f32> = (0..3 * columns)
            .map(|i| ((i * 17 % 97) as f32 - 48.0) / 29.0)
            .collect();
        let product = |compute: &Compute, x: &[f32]| {
            let mut y = vec![f32::NAN; rows * x.len() / columns];
            compute.multiply([Product {
                weights: Weights::F32(&w),
                x: &Tokens::new(x, columns),
                y: Results::new(&mut y, x.len() / columns),
            }]);
            y
        };
        let one = Compute::new(1, Isa::portable()).unwrap();
        let two = Compute::new(2, Isa::detect()).unwrap();
        let a = product(&one, &x);
        let fused = one.meter.fused_so_far();
        assert_eq!(fused, (rows * columns * 3) as u64);
        for (t, x) in x.chunks(columns).enumerate() {
            let b = product(&two, x);
            assert_eq!(a[t * rows..][..rows], b);
        }
    }
}
