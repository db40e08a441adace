/* The smallest program over quern.h: load a model, ask one question, print the answer as it comes.
 *   hello MODEL.gguf [QUESTION]
 */
#include <stdio.h>
#include <stdlib.h>

#include "quern/quern.h"

static bool print(const char* text, size_t bytes, void* user) {
  (void)user;
  return fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, quern_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: hello MODEL.gguf [QUESTION]\n"), 2;
  quern_engine* engine = NULL;
  if (quern_engine_load(argv[1], NULL, &engine) != QUERN_OK) return fail("load");

  quern_message message = {"user", argc > 2 ? argv[2] : "Why is the sky blue?"};
  size_t n = 0;
  quern_chat_tokens(engine, &message, 1, NULL, &n); /* how many? */
  int32_t* ids = malloc((n + 1) * sizeof *ids);
  if (ids == NULL || quern_chat_tokens(engine, &message, 1, ids, &n) != QUERN_OK) return fail("chat");

  quern_session* session = NULL;
  if (quern_session_new(engine, &session) != QUERN_OK) return fail("session");
  quern_sampling sampling = quern_sampling_defaults();
  sampling.temperature = 0; /* greedy: the same answer every time */
  int32_t n_generated = 0;
  if (quern_generate(session, ids, n, &sampling, 64, print, NULL, &n_generated) != QUERN_OK) return fail("generate");
  printf("\n[%d tokens]\n", (int)n_generated);

  quern_session_free(session);
  quern_engine_free(engine);
  free(ids);
  return 0;
}
