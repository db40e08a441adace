/* Quern: run open-weight language models from GGUF files. The C interface, the only installed header besides quern.hpp.
 *
 * Objects are opaque and freed by their own function. Every call that can fail returns a quern_status; the message of
 * the last failure of the calling thread is quern_last_error(). No call ends the process or throws.
 * One engine holds one model and is immutable; a session is one timeline of tokens and is used by one thread at a time.
 */
#ifndef QUERN_H
#define QUERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_engine quern_engine;
typedef struct quern_session quern_session;

typedef enum quern_status {
  QUERN_OK = 0,
  QUERN_INVALID_ARGUMENT,
  QUERN_INVALID_FILE,
  QUERN_UNSUPPORTED,
  QUERN_NOT_FOUND,
  QUERN_IO_ERROR,
  QUERN_OUT_OF_MEMORY,
  QUERN_LIMIT_EXCEEDED,
  QUERN_CANCELLED
} quern_status;

/* Start from quern_engine_defaults(): fields may be added at the end. */
typedef struct quern_engine_options {
  size_t size;       /* sizeof(quern_engine_options), set by quern_engine_defaults */
  int32_t n_threads; /* 0: one per usable core */
  int32_t n_ctx;     /* positions a session may hold; 0: the model's, at most 8192 */
  int32_t n_chunk;   /* prompt tokens evaluated at once */
  const char* isa;   /* NULL: the best tier of this processor */
  /* As --image and --tune of the program, and from its cache folder; but a library writes nothing that nobody asked
   * for, so NULL is "off". */
  const char*
      image; /* packed weights: "auto" keeps them in the cache folder and reads them from there, "map" maps them */
  const char* tune;    /* "auto": kernels and threads as `quern tune` found them on this machine */
  const char* cache;   /* the folder; NULL: QUERN_CACHE, else XDG_CACHE_HOME/quern, else ~/.cache/quern */
  const char* pooling; /* of embeddings: "mean", "cls", "last"; NULL: as the file says, else last */
} quern_engine_options;

typedef struct quern_sampling {
  size_t size;       /* sizeof(quern_sampling), set by quern_sampling_defaults */
  float temperature; /* 0: greedy */
  int32_t top_k;     /* 0: off */
  float top_p, min_p;
  float repeat_penalty, presence_penalty, frequency_penalty;
  int32_t repeat_last_n;
  uint64_t seed;
} quern_sampling;

/* One turn of a conversation, UTF-8. */
typedef struct quern_message {
  const char* role; /* "system", "user", "assistant" */
  const char* content;
} quern_message;

const char* quern_version(void);
/* The last failure's message in this thread; empty if none. Valid until this thread's next call. */
const char* quern_last_error(void);

quern_engine_options quern_engine_defaults(void);
quern_sampling quern_sampling_defaults(void);

quern_status quern_engine_load(const char* path, const quern_engine_options* options, quern_engine** out);
void quern_engine_free(quern_engine* engine);
int32_t quern_engine_n_vocab(const quern_engine* engine);
int32_t quern_engine_n_ctx(const quern_engine* engine);
int32_t quern_engine_n_embedding(const quern_engine* engine);

/* Text to ids. *n holds the room in ids on entry and the number needed on return; QUERN_LIMIT_EXCEEDED when it does not
 * fit (ids may be NULL with *n = 0 to ask). special: recognise control tokens in the text and add those the model
 * wants. */
quern_status quern_tokenize(const quern_engine* engine, const char* text, size_t bytes, bool special, int32_t* ids,
                            size_t* n);
/* Ids to bytes, same convention for *bytes. No terminating zero is written. */
quern_status quern_detokenize(const quern_engine* engine, const int32_t* ids, size_t n, char* text, size_t* bytes);
/* A conversation to ids through the model's chat template, ready for the assistant's answer. Control tokens in content
 * stay text. */
quern_status quern_chat_tokens(const quern_engine* engine, const quern_message* messages, size_t n_messages,
                               int32_t* ids, size_t* n);

quern_status quern_session_new(quern_engine* engine, quern_session** out);
void quern_session_free(quern_session* session);
/* Makes the session's timeline equal to ids, evaluating only what is new. */
quern_status quern_session_sync(quern_session* session, const int32_t* ids, size_t n);
/* f32 [n_vocab]: what follows the last token. Valid until the next call on the session. */
const float* quern_session_logits(const quern_session* session);
/* Makes the timeline equal to ids, and writes their embedding to vector: f32 [n_embedding], of length 1. The logits are
 * not those that follow. QUERN_UNSUPPORTED where the model gives none. */
quern_status quern_session_embed(quern_session* session, const int32_t* ids, size_t n, float* vector);

/* Called with whole UTF-8 characters as they complete; return false to stop. */
typedef bool (*quern_text_fn)(const char* text, size_t bytes, void* user);
/* Continues after ids until the model ends its turn, max_tokens are produced, or on_text returns false. */
quern_status quern_generate(quern_session* session, const int32_t* ids, size_t n, const quern_sampling* sampling,
                            int32_t max_tokens, quern_text_fn on_text, void* user, int32_t* n_generated);

/* The same with every token: control tokens, which have no text, and at the end the end-of-generation token (ends is
 * true then, and what is returned does not matter). id is -1 where only text is left, with no token. */
typedef bool (*quern_token_fn)(int32_t id, const char* text, size_t bytes, bool ends, void* user);
quern_status quern_generate_tokens(quern_session* session, const int32_t* ids, size_t n, const quern_sampling* sampling,
                                   int32_t max_tokens, quern_token_fn on_token, void* user, int32_t* n_generated);

#ifdef __cplusplus
}
#endif
#endif
