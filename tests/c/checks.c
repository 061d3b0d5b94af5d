/* What the C interface promises, checked from C. Prints what failed and ends with 1, else with 0. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k3.h"

#define CHECK(what)                                                      \
    do {                                                                 \
        if (!(what)) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);   \
            exit(1);                                                     \
        }                                                                \
    } while (0)

typedef struct {
    char text[1 << 16];
    size_t length;
    int think, response;
    int stop_after; /* pieces; 0 is never */
    const K3 *k3;   /* asked for telemetry and for another answer meanwhile */
} Said;

static int32_t take(void *user, K3Channel channel, const char *text, size_t length) {
    Said *said = user;
    if (channel == K3_CHANNEL_RESPONSE) {
        CHECK(said->length + length < sizeof said->text);
        memcpy(said->text + said->length, text, length);
        said->length += length;
        said->text[said->length] = 0;
    }
    *(channel == K3_CHANNEL_THINK ? &said->think : &said->response) += 1;
    if (said->k3) {
        K3Telemetry now;
        CHECK(k3_telemetry(said->k3, &now) == K3_CODE_OK);
        CHECK(now.layers == 6 && now.context == 512 && now.drops == 0);
        char *error = NULL;
        CHECK(k3_generate(said->k3, "hello", NULL, NULL, &error) == K3_CODE_BUSY);
        CHECK(error && strstr(error, "another"));
        k3_free(error);
    }
    return said->stop_after && said->think + said->response >= said->stop_after;
}

static void *cancel(void *k3) {
    k3_cancel(k3);
    return NULL;
}

static int32_t cancel_elsewhere(void *user, K3Channel channel, const char *text, size_t length) {
    (void)channel, (void)text, (void)length;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, cancel, user) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    K3Options options = k3_options();
    options.model = arguments[1];
    options.context = 512;
    K3 *k3 = NULL;
    char *error = NULL;

    /* What cannot be used is refused with a text. */
    K3Options wrong = options;
    wrong.preset = "huge";
    CHECK(k3_open(&wrong, &k3, &error) == K3_CODE_REFUSED && !k3);
    CHECK(strstr(error, "there is no preset \"huge\""));
    k3_free(error);
    wrong = options;
    wrong.model = "/nowhere/at/all";
    CHECK(k3_open(&wrong, &k3, &error) == K3_CODE_REFUSED && !k3);
    CHECK(strstr(error, "/nowhere/at/all"));
    k3_free(error);
    wrong = options;
    wrong.temperature = NAN;
    CHECK(k3_open(&wrong, &k3, NULL) == K3_CODE_REFUSED && !k3);
    CHECK(k3_open(NULL, &k3, NULL) == K3_CODE_REFUSED && !k3);
    CHECK(k3_open(&options, NULL, NULL) == K3_CODE_REFUSED);
    CHECK(k3_generate(NULL, "hello", NULL, NULL, NULL) == K3_CODE_REFUSED);
    CHECK(k3_telemetry(NULL, NULL) == K3_CODE_REFUSED);
    k3_cancel(NULL);
    k3_close(NULL);
    k3_free(NULL);

    CHECK(k3_open(&options, &k3, &error) == K3_CODE_OK && k3 && !error);
    CHECK(k3_telemetry(k3, NULL) == K3_CODE_REFUSED);
    CHECK(k3_generate(k3, NULL, NULL, NULL, NULL) == K3_CODE_REFUSED);
    CHECK(k3_generate(k3, "\xff", NULL, NULL, &error) == K3_CODE_REFUSED && strstr(error, "UTF-8"));
    k3_free(error);

    /* An answer, watched; then the same once more after a reset. */
    static Said first, second, third;
    first.k3 = k3;
    CHECK(k3_generate(k3, "hello", take, &first, &error) == K3_CODE_OK && !error);
    CHECK(first.think > 0 && first.response > 0);
    CHECK(k3_reset(k3, NULL) == K3_CODE_OK);
    CHECK(k3_generate(k3, "hello", take, &second, NULL) == K3_CODE_OK);
    CHECK(strcmp(first.text, second.text) == 0);
    K3Telemetry seen;
    CHECK(k3_telemetry(k3, &seen) == K3_CODE_OK);
    CHECK(seen.positions > 0 && seen.expert_bytes_read > 0 && seen.resident_bytes > 0);
    CHECK(seen.expert_retained >= 0 && seen.expert_retained <= 1);

    /* Stopped by the callback, and by another thread; the conversation goes on afterwards. */
    third.stop_after = 3;
    CHECK(k3_generate(k3, "what is the ring?", take, &third, &error) == K3_CODE_CANCELLED);
    k3_free(error);
    CHECK(third.think + third.response >= 3);
    CHECK(k3_generate(k3, "what is the trunk?", cancel_elsewhere, k3, NULL) == K3_CODE_CANCELLED);
    CHECK(k3_reset(k3, NULL) == K3_CODE_OK);
    memset(&second, 0, sizeof second);
    CHECK(k3_generate(k3, "hello", take, &second, NULL) == K3_CODE_OK);
    CHECK(strcmp(first.text, second.text) == 0);
    CHECK(k3_generate(k3, "thanks", NULL, NULL, NULL) == K3_CODE_OK);
    k3_close(k3);
    return 0;
}
