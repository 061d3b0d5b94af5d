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

/// Channels that go together, so that their sums stay in registers while the rows go by.
const WIDE: usize = 32;

#[inline(always)]
fn short_conv_body(taps: &[f32], history: &mut [f32], x: &mut [f32]) {
    let whole = x.len() / WIDE * WIDE;
    for start in (0..whole).step_by(WIDE) {
        channels::<WIDE>(taps, history, x, start);
    }
    for start in whole..x.len() {
        channels::<1>(taps, history, x, start);
    }
}

/// [`short_conv`] of `W` channels. How many is known here: loops over a number that is not are several times slower.
#[inline(always)]
fn channels<const W: usize>(taps: &[f32], history: &mut [f32], x: &mut [f32], start: usize) {
    let channels = x.len();
    let (past_taps, current_taps) = taps.split_at(history.len());
    let Some(x) = x[start..].first_chunk_mut::<W>() else {
        return;
    };
    let mut sums = [0.0f32; W];
    let rows = past_taps.chunks_exact(channels);
    for (taps, past) in rows.zip(history.chunks_exact(channels)) {
        let taps = taps[start..].iter().zip(&past[start..]);
        for (sum, (tap, past)) in sums.iter_mut().zip(taps) {
            *sum = tap.mul_add(*past, *sum);
        }
    }
    for ((sum, tap), x) in sums.iter_mut().zip(&current_taps[start..]).zip(x.iter()) {
        *sum = tap.mul_add(*x, *sum);
    }
    // The history moves on by one row, the raw input last.
    let rows = history.len() / channels;
    for row in 1..rows {
        let from = row * channels + start;
        history.copy_within(from..from + W, from - channels);
    }
    if let Some(last) = rows.checked_sub(1) {
        history[last * channels + start..][..W].copy_from_slice(x);
    }
    for (x, sum) in x.iter_mut().zip(sums) {
        *x = sum * sigmoid(sum);
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
