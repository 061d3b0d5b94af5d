//! The short causal convolution of KDA, one channel at a time in depth.

use super::elementary::sigmoid;

kernel! {
    /// One token through a depthwise convolution with SiLU, over `channels` values.
    ///
    /// `taps` is `[kernel][channels]`, oldest tap first, the last one for the current token. `history` is
    /// `[kernel - 1][channels]`, oldest first, and is moved on by this token's raw input. `x` goes in and comes out as
    /// the result.
    pub fn short_conv(taps: &[f32], history: &mut [f32], x: &mut [f32]) = short_conv_body;
}

#[inline(always)]
fn short_conv_body(taps: &[f32], history: &mut [f32], x: &mut [f32]) {
    let channels = x.len();
    let (past_taps, current_taps) = taps.split_at(history.len());
    // A block of channels at a time, so that the sums stay in registers while the rows go by.
    const WIDE: usize = 32;
    for start in (0..channels).step_by(WIDE) {
        let block = start..(start + WIDE).min(channels);
        let mut sums = [0.0f32; WIDE];
        let sums = &mut sums[..block.len()];
        for (taps, past) in past_taps
            .chunks_exact(channels)
            .zip(history.chunks_exact(channels))
        {
            for ((sum, tap), past) in sums
                .iter_mut()
                .zip(&taps[block.clone()])
                .zip(&past[block.clone()])
            {
                *sum = tap.mul_add(*past, *sum);
            }
        }
        for ((sum, tap), x) in sums
            .iter_mut()
            .zip(&current_taps[block.clone()])
            .zip(&x[block])
        {
            *sum = tap.mul_add(*x, *sum);
        }
        // The history moves on by one row, the raw input last.
        for (c, raw) in (start..).zip(&x[start..start + sums.len()]) {
            let mut row = c;
            while row + channels < history.len() {
                history[row] = history[row + channels];
                row += channels;
            }
            if let Some(last) = history.get_mut(row) {
                *last = *raw;
            }
        }
        for (sum, x) in sums.iter().zip(&mut x[start..]) {
            *x = sum * sigmoid(*sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn the_last_tap_is_the_current_token_and_history_keeps_raw_inputs() {
        // Two channels, three taps.
        let taps = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0];
        let mut history = [5.0, 6.0, 7.0, 8.0];
        let mut x = [0.5, 0.25];
        short_conv(Isa::detect(), &taps, &mut history, &mut x);
        assert_eq!(x, [0.5 * sigmoid(0.5), 6.0 * sigmoid(6.0)]);
        assert_eq!(history, [7.0, 8.0, 0.5, 0.25]);
    }

    #[test]
    fn a_kernel_of_one_has_no_history() {
        let mut x = [2.0];
        short_conv(Isa::detect(), &[3.0], &mut [], &mut x);
        assert_eq!(x, [6.0 * sigmoid(6.0)]);
    }
}
