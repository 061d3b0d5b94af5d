//! Where products put their results: some rows of every token. Parts of one place can be filled by several threads at once.

use std::marker::PhantomData;

/// Rows of every token, of a place that is `[tokens][rows]`.
pub struct Results<'a> {
    /// The first token's first row.
    begin: *mut f32,
    rows: usize,
    tokens: usize,
    /// From one token to the next: all rows of the place.
    stride: usize,
    place: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for exclusive references to its rows, which may go to another thread; no two of them have a row in common.
#[allow(unsafe_code)]
unsafe impl Send for Results<'_> {}

impl<'a> Results<'a> {
    /// All rows of `y`, which is `[tokens][rows]`.
    pub fn new(y: &'a mut [f32], tokens: usize) -> Self {
        let rows = y.len() / tokens.max(1);
        Self {
            begin: y.as_mut_ptr(),
            rows,
            tokens,
            stride: rows,
            place: PhantomData,
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The first `rows` of every token, and what is behind them.
    pub fn split_at(self, rows: usize) -> (Self, Self) {
        assert!(rows <= self.rows, "no more rows than there are");
        let behind = Self {
            begin: self.begin.wrapping_add(rows),
            rows: self.rows - rows,
            ..self
        };
        (Self { rows, ..self }, behind)
    }

    /// The rows of one token.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) fn token(&mut self, token: usize) -> &mut [f32] {
        assert!(token < self.tokens, "no more tokens than there are");
        // SAFETY: the place was handed over as an exclusive reference to all rows of all tokens for as long as `'a`; these are
        // among the rows of one of its tokens, and whoever was split off has others.
        unsafe { std::slice::from_raw_parts_mut(self.begin.add(token * self.stride), self.rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_filled_by_several_threads() {
        let (tokens, rows) = (3, 7);
        let mut y = vec![0.0; tokens * rows];
        let (first, rest) = Results::new(&mut y, tokens).split_at(2);
        let (second, third) = rest.split_at(0);
        std::thread::scope(|scope| {
            for (mut part, from) in [(first, 0), (second, 2), (third, 2)] {
                scope.spawn(move || {
                    for t in 0..tokens {
                        for (r, y) in part.token(t).iter_mut().enumerate() {
                            *y = (t * rows + from + r) as f32;
                        }
                    }
                });
            }
        });
        let want: Vec<f32> = (0..tokens * rows).map(|i| i as f32).collect();
        assert_eq!(y, want);
    }

    #[test]
    fn nothing_has_no_rows() {
        let results = Results::new(&mut [], 0);
        assert_eq!(results.rows(), 0);
    }

    #[test]
    #[should_panic(expected = "no more rows")]
    fn there_are_no_rows_behind_the_last() {
        let _ = Results::new(&mut [0.0; 6], 2).split_at(4);
    }
}
