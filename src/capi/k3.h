// The C interface of k3. Made from src/capi by the test `c_interface`; change the code, not this file.
// Build, memory and threads: docs/embedding.md.

#ifndef K3_H
#define K3_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// What became of a call.
typedef enum K3Code {
  // Done.
  K3_CODE_OK = 0,
  // It failed while running.
  K3_CODE_FAILED = 1,
  // An argument, a file or a budget that cannot be used.
  K3_CODE_REFUSED = 2,
  // An expert could not be read after retries: the answer ends there, every token of it is right.
  K3_CODE_DROP = 4,
  // Stopped by `k3_cancel` or by the callback. What was said so far is kept.
  K3_CODE_CANCELLED = 5,
  // Another thread is in `k3_generate`.
  K3_CODE_BUSY = 6,
} K3Code;

// Where a piece of text belongs.
typedef enum K3Channel {
  // What the model thinks.
  K3_CHANNEL_THINK = 0,
  // What it answers.
  K3_CHANNEL_RESPONSE = 1,
  // Calls of tools; this program offers none.
  K3_CHANNEL_TOOLS = 2,
} K3Channel;

// An open model with its conversation.
typedef struct K3 K3;

// What to open and how. Zero and null mean: as usual. Take them from `k3_options` and change what is to be another.
typedef struct K3Options {
  // The checkpoint's folder; null is the demo model.
  const char *model;
  // Where the demo model is unpacked; null is the platform's cache folder.
  const char *cache;
  // Folder of `tiktoken.model` and `tokenizer_config.json`; null is the model's.
  const char *tokenizer;
  // Folder of a packed trunk; null reads the shards.
  const char *trunk;
  // ultra, laptop, desktop, workstation, server, max or auto; null is auto.
  const char *preset;
  // low, high, max, or off for no thinking; null is max.
  const char *effort;
  // Bytes for pins and ring together; 0 leaves it to the preset.
  uint64_t trunk_bytes;
  // Bytes for experts; 0 leaves it to the preset.
  uint64_t cache_bytes;
  // Slots of the ring; 0 is four.
  size_t ring;
  // Positions to plan for; 0 is 8,192, or the model's longest.
  size_t context;
  // Threads; 0 is all cores.
  size_t threads;
  // At most so many tokens an answer; 0 is as many as fit.
  size_t tokens;
  // 0 chooses the most probable token; above 0 tokens are drawn at this temperature.
  double temperature;
  // The most probable tokens that together reach this share are drawn from; 0 is 0.95.
  double top_p;
  // Where drawing begins.
  uint64_t seed;
} K3Options;

// Takes a piece of an answer: `length` bytes of UTF-8 at `text`, without an end mark, valid during the call. Another result
// than 0 stops the answer.
typedef int32_t (*K3Text)(void *user, enum K3Channel channel, const char *text, size_t length);

// What is going on. A rate or share that is not known is NaN; a count that is not known is 0.
typedef struct K3Telemetry {
  // Trunk bytes read a second over the last second, in GB/s.
  double trunk_gb_per_s;
  // Expert bytes read a second over the last second, in GB/s.
  double expert_gb_per_s;
  // Share of the requested expert bytes that did not have to be read, 0 to 1.
  double expert_retained;
  // Tokens a minute over the running or the last answer.
  double tokens_per_minute;
  // Trunk bytes read since the model was opened.
  uint64_t trunk_bytes_read;
  // Expert bytes read since the model was opened.
  uint64_t expert_bytes_read;
  // Experts that could not be read.
  uint64_t drops;
  // Resident bytes of the process.
  uint64_t resident_bytes;
  // The peak that the memory plan predicts.
  uint64_t planned_bytes;
  // Positions in use.
  size_t positions;
  // Positions planned.
  size_t context;
  // Layers of the running pass that are through.
  size_t layer;
  // Layers of a pass.
  size_t layers;
  // Slots of the ring with a read in flight.
  size_t ring_in_flight;
  // Slots of the ring; 0 where the trunk is wholly in memory.
  size_t ring_slots;
} K3Telemetry;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Options that ask for nothing: the demo model by preset `auto`, thinking at effort max, greedy, 8,192 positions.
struct K3Options k3_options(void);

// Opens a model, checks it and starts its thread. `*out` is null unless the result is `Ok`.
//
// # Safety
// `options` points to options whose texts end with NUL or are null; `out` to a place for a pointer; `error` to one, or is
// null.
enum K3Code k3_open(const struct K3Options *options,
                    struct K3 **out,
                    char **error);

// Says `message`, and gives the answer to `callback` (which may be null) as it is made, with `user`. Returns when the answer
// has ended. The conversation goes on from call to call.
//
// # Safety
// `k3` is from [`k3_open`] and not closed; `message` ends with NUL; `callback` may be called with `user` on this thread;
// `error` points to a place for a pointer, or is null.
enum K3Code k3_generate(const struct K3 *k3,
                        const char *message,
                        K3Text callback,
                        void *user,
                        char **error);

// Forgets the conversation.
//
// # Safety
// As [`k3_generate`].
enum K3Code k3_reset(const struct K3 *k3, char **error);

// Stops the running answer between two layers; nothing if none runs.
//
// # Safety
// `k3` is from [`k3_open`] and not closed, or null.
void k3_cancel(const struct K3 *k3);

// Writes what is going on to `out`.
//
// # Safety
// `k3` is from [`k3_open`] and not closed; `out` points to a place for telemetry.
enum K3Code k3_telemetry(const struct K3 *k3, struct K3Telemetry *out);

// Ends the model's thread and frees everything. Null is nothing.
//
// # Safety
// `k3` is from [`k3_open`], is not closed, and no other call runs or comes.
void k3_close(struct K3 *k3);

// Frees the text of an error. Null is nothing.
//
// # Safety
// `text` is from a call of this interface and not freed.
void k3_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* K3_H */
