//! The C interface: open a model, say something and get the answer token by token, look at what goes on, stop, close.
//! Pointers and strings are handled here; everything else is [`talk`]'s. Built with the feature `capi`.
//!
//! Memory. What the caller gives is only read, and only during the call. A [`K3`] is made by [`k3_open`] and ended by
//! [`k3_close`]. A text of an error is made by the call that failed and freed by [`k3_free`]. Nothing else is handed out.
//!
//! Threads. [`k3_cancel`] and [`k3_telemetry`] may be called from any thread while another one is in [`k3_generate`]. A second
//! [`k3_generate`] or [`k3_reset`] meanwhile is refused with [`K3Code::Busy`]. [`k3_close`] must be the last call.
#![allow(unsafe_code)]

mod options;
mod talk;
mod telemetry;

use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use options::K3Options;
use talk::{Problem, Talk};
pub use telemetry::K3Telemetry;

use crate::text::Channel;

/// What became of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum K3Code {
    /// Done.
    Ok = 0,
    /// It failed while running.
    Failed = 1,
    /// An argument, a file or a budget that cannot be used.
    Refused = 2,
    /// An expert could not be read after retries: the answer ends there, every token of it is right.
    Drop = 4,
    /// Stopped by `k3_cancel` or by the callback. What was said so far is kept.
    Cancelled = 5,
    /// Another thread is in `k3_generate`.
    Busy = 6,
}

/// Where a piece of text belongs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum K3Channel {
    /// What the model thinks.
    Think = 0,
    /// What it answers.
    Response = 1,
    /// Calls of tools; this program offers none.
    Tools = 2,
}

/// Takes a piece of an answer: `length` bytes of UTF-8 at `text`, without an end mark, valid during the call. Another result
/// than 0 stops the answer.
pub type K3Text = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        channel: K3Channel,
        text: *const c_char,
        length: usize,
    ) -> i32,
>;

/// An open model with its conversation.
pub struct K3(Talk);

/// Runs `body`; tells what went wrong through `error`, where that is wanted.
fn told(error: *mut *mut c_char, body: impl FnOnce() -> Result<(), Problem>) -> K3Code {
    if !error.is_null() {
        // SAFETY: the caller gives a place for a pointer, or null.
        unsafe { *error = std::ptr::null_mut() };
    }
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let problem = match outcome {
        Ok(Ok(())) => return K3Code::Ok,
        Ok(Err(problem)) => problem,
        Err(_) => Problem::new(
            K3Code::Failed,
            "the program has a fault; it said where on standard error",
        ),
    };
    if !error.is_null() {
        // A text with a NUL inside ends there for C.
        let bytes: Vec<u8> = problem.text.bytes().take_while(|byte| *byte != 0).collect();
        let text = CString::new(bytes).unwrap_or_default();
        // SAFETY: as above; `k3_free` takes the text back.
        unsafe { *error = text.into_raw() };
    }
    problem.code
}

/// Options that ask for nothing: the demo model by preset `auto`, thinking at effort max, greedy, 8,192 positions.
#[unsafe(no_mangle)]
pub extern "C" fn k3_options() -> K3Options {
    K3Options::default()
}

/// Opens a model, checks it and starts its thread. `*out` is null unless the result is `Ok`.
///
/// # Safety
/// `options` points to options whose texts end with NUL or are null; `out` to a place for a pointer; `error` to one, or is
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn k3_open(
    options: *const K3Options,
    out: *mut *mut K3,
    error: *mut *mut c_char,
) -> K3Code {
    told(error, || {
        if out.is_null() {
            return Err(Problem::refused("there is no place for the result"));
        }
        // SAFETY: not null, and the caller gives a place for a pointer.
        unsafe { *out = std::ptr::null_mut() };
        // SAFETY: the caller gives options, or null.
        let Some(options) = (unsafe { options.as_ref() }) else {
            return Err(Problem::refused(
                "there are no options; k3_options gives some",
            ));
        };
        // SAFETY: the caller's texts end with NUL.
        let options = unsafe { options.read() }?;
        let talk = Box::new(K3(Talk::open(options)?));
        // SAFETY: as above; `k3_close` takes the box back.
        unsafe { *out = Box::into_raw(talk) };
        Ok(())
    })
}

/// Says `message`, and gives the answer to `callback` (which may be null) as it is made, with `user`. Returns when the answer
/// has ended. The conversation goes on from call to call.
///
/// # Safety
/// `k3` is from [`k3_open`] and not closed; `message` ends with NUL; `callback` may be called with `user` on this thread;
/// `error` points to a place for a pointer, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn k3_generate(
    k3: *const K3,
    message: *const c_char,
    callback: K3Text,
    user: *mut c_void,
    error: *mut *mut c_char,
) -> K3Code {
    told(error, || {
        // SAFETY: the caller gives an open model.
        let talk = unsafe { open(k3) }?;
        // SAFETY: the caller's text ends with NUL.
        let message = unsafe { options::text(message, "the message") }?;
        let Some(message) = message else {
            return Err(Problem::refused("there is no message"));
        };
        talk.generate(message, &mut |channel, text| {
            let Some(callback) = callback else {
                return true;
            };
            let channel = match channel {
                Channel::Think => K3Channel::Think,
                Channel::Response => K3Channel::Response,
                Channel::Tools => K3Channel::Tools,
            };
            // SAFETY: the caller's function may be called so; the text lives through the call.
            unsafe { callback(user, channel, text.as_ptr().cast(), text.len()) == 0 }
        })
    })
}

/// Forgets the conversation.
///
/// # Safety
/// As [`k3_generate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn k3_reset(k3: *const K3, error: *mut *mut c_char) -> K3Code {
    told(error, || {
        // SAFETY: the caller gives an open model.
        unsafe { open(k3) }?.reset()
    })
}

/// Stops the running answer between two layers; nothing if none runs.
///
/// # Safety
/// `k3` is from [`k3_open`] and not closed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn k3_cancel(k3: *const K3) {
    // SAFETY: the caller gives an open model, or null.
    if let Ok(talk) = unsafe { open(k3) } {
        talk.cancel();
    }
}

/// Writes what is going on to `out`.
///
/// # Safety
/// `k3` is from [`k3_open`] and not closed; `out` points to a place for telemetry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn k3_telemetry(k3: *const K3, out: *mut K3Telemetry) -> K3Code {
    told(std::ptr::null_mut(), || {
        // SAFETY: the caller gives an open model.
        let talk = unsafe { open(k3) }?;
        if out.is_null() {
            return Err(Problem::refused("there is no place for the result"));
        }
        // SAFETY: not null, and the caller gives a place for telemetry.
        unsafe { out.write(K3Telemetry::of(&talk.telemetry())) };
        Ok(())
    })
}

/// Ends the model's thread and frees everything. Null is nothing.
///
/// # Safety
/// `k3` is from [`k3_open`], is not closed, and no other call runs or comes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn k3_close(k3: *mut K3) {
    if !k3.is_null() {
        // SAFETY: made by `Box::into_raw` in `k3_open`, and given back once.
        drop(unsafe { Box::from_raw(k3) });
    }
}

/// Frees the text of an error. Null is nothing.
///
/// # Safety
/// `text` is from a call of this interface and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn k3_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `CString::into_raw` in `told`, and given back once.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// The model behind a pointer.
///
/// # Safety
/// It is from [`k3_open`] and not closed, or null.
unsafe fn open<'a>(k3: *const K3) -> Result<&'a Talk, Problem> {
    // SAFETY: the caller's promise.
    match unsafe { k3.as_ref() } {
        Some(K3(talk)) => Ok(talk),
        None => Err(Problem::refused("there is no model: open one first")),
    }
}
