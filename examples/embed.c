/* A model inside a C program: open it, stream an answer, look at what disk and caches did, close it.
 *
 *   cargo rustc --release --lib --features capi --crate-type staticlib
 *   cc -I src/capi examples/embed.c target/release/libk3.a -lpthread -lm -ldl -o embed
 *   ./embed [MODEL [MESSAGE]]
 *
 * Without a MODEL it is the demo model. Ctrl-C stops the answer. */
#include <signal.h>
#include <stdio.h>

#include "k3.h"

static volatile sig_atomic_t stopped;

static void interrupted(int signal) {
    (void)signal;
    stopped = 1; /* k3_cancel would stop within the token, but takes a lock: for threads, not for signal handlers */
}

static int32_t show(void *user, K3Channel channel, const char *text, size_t length) {
    K3Channel *last = user;
    if (*last != channel) {
        printf("\n[%s] ", channel == K3_CHANNEL_THINK ? "think" : "response");
        *last = channel;
    }
    fwrite(text, 1, length, stdout);
    fflush(stdout);
    return stopped; /* anything but 0 stops the answer */
}

int main(int count, char **arguments) {
    K3Options options = k3_options();
    options.model = count > 1 && arguments[1][0] ? arguments[1] : NULL;
    options.preset = "ultra";
    options.context = 2048;

    K3 *k3 = NULL;
    char *error = NULL;
    K3Code code = k3_open(&options, &k3, &error);
    if (code == K3_CODE_OK) {
        signal(SIGINT, interrupted);
        K3Channel last = (K3Channel)-1;
        code = k3_generate(k3, count > 2 ? arguments[2] : "What is the ring?", show, &last, &error);
    }

    K3Telemetry seen;
    if (k3_telemetry(k3, &seen) == K3_CODE_OK) {
        printf("\n\ntrunk read: %.1f MB; experts read: %.1f MB; drops: %llu\n", seen.trunk_bytes_read / 1e6,
               seen.expert_bytes_read / 1e6, (unsigned long long)seen.drops);
    }
    if (code != K3_CODE_OK) {
        fprintf(stderr, "embed: %s\n", error ? error : "failed");
    }
    k3_free(error);
    k3_close(k3);
    return (int)code;
}
