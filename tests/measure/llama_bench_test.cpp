// What is asked of a llama-bench and what is understood of its answer.
#include "measure/llama_bench.h"

#include <gtest/gtest.h>

namespace quern::measure {
namespace {

constexpr const char* kHelp = "usage\n -r, --repetitions <n>\n -p, --n-prompt <n>\n -n, --n-gen <n>\n";

Peer peer_of(const std::string& command, const std::string& more_help) {
  auto peer = peer_of_command(command);
  EXPECT_TRUE(peer.ok() && recognise_peer(*peer, kHelp + more_help).ok());
  return peer.ok() ? *std::move(peer) : Peer{};
}

TEST(LlamaBench, Names) {
  EXPECT_EQ((SpeedTest{.n_prompt = 512}.name()), "pp512");
  EXPECT_EQ((SpeedTest{.n_gen = 128, .n_depth = 4096}.name()), "tg128 @ d4096");
  EXPECT_EQ((SpeedTest{.n_gen = 128, .n_batch = 4}.name()), "tg128 b4");
  EXPECT_EQ((SpeedTest{.turn = 2, .turn_tokens = 100}.name()), "ttft turn 2");
  EXPECT_STREQ((SpeedTest{.turn = 2}.unit()), "ms");
  EXPECT_STREQ((SpeedTest{.n_gen = 2}.unit()), "t/s");
}

TEST(LlamaBench, CommandsAreSplitAsWords) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(*split_command("/a/llama-bench"), (Words{"/a/llama-bench"}));
  EXPECT_EQ(*split_command("  x  -rtr 1\t"), (Words{"x", "-rtr", "1"}));
  EXPECT_EQ(*split_command("'/with blank/x' \"a\\\"b\" c\\ d ''"), (Words{"/with blank/x", "a\"b", "c d", ""}));
  EXPECT_EQ(*split_command("'a\\b'"), (Words{"a\\b"}));
  for (const char* bad : {"", "   ", "''", "x 'open", "x \"open"}) EXPECT_FALSE(split_command(bad).ok()) << bad;
}

TEST(LlamaBench, PeersAreKnownByTheirHelp) {
  const Peer ik = peer_of("ik/llama-bench -rtr 1", " -rtr, --run-time-repack <0|1>");
  EXPECT_EQ(ik.name, "ik_llama.cpp");
  EXPECT_FALSE(ik.has_depth);
  const Peer llama = peer_of("llama-bench", " -d, --n-depth <n>");
  EXPECT_EQ(llama.name, "llama.cpp");
  EXPECT_TRUE(llama.has_depth);
  EXPECT_EQ(llama.version, "");
  Peer other = peer_of_command("version=b1 /bin/ls -l").value();
  EXPECT_EQ(other.version, "b1");
  EXPECT_EQ(other.args, (std::vector<std::string>{"-l"}));
  EXPECT_NE(recognise_peer(other, "usage: ls").error().message.find("/bin/ls"), std::string::npos);
  EXPECT_FALSE(peer_of_command("version=b1").ok());

  EXPECT_TRUE(can_measure(ik, {.n_prompt = 5}));
  EXPECT_FALSE(can_measure(ik, {.n_prompt = 5, .n_depth = 6}));
  EXPECT_TRUE(can_measure(ik, {.n_gen = 5, .n_depth = 6}));
  EXPECT_TRUE(can_measure(llama, {.n_prompt = 5, .n_depth = 6}));
  EXPECT_FALSE(can_measure(llama, {.n_gen = 5, .n_batch = 2}));
  EXPECT_FALSE(can_measure(llama, {.turn = 1, .turn_tokens = 5}));
}

TEST(LlamaBench, CommandsOfEachPeer) {
  const Peer llama = peer_of("/x/llama-bench --repack 0", " -d, --n-depth <n>"), ik = peer_of("/x/ik", "");
  const auto text = [](const Peer& peer, const SpeedTest& test) {
    return command_shown(peer_command(peer, "/models/m.gguf", test, 2, 3));
  };
  EXPECT_EQ(text(llama, {.n_prompt = 512}), "llama-bench --repack 0 -m m.gguf -t 2 -p 512 -n 0 -r 3 -o json");
  EXPECT_EQ(text(llama, {.n_gen = 8, .n_depth = 64}),
            "llama-bench --repack 0 -m m.gguf -t 2 -p 0 -n 8 -d 64 -r 3 -o json");
  EXPECT_EQ(text(ik, {.n_gen = 8, .n_depth = 64}), "ik -m m.gguf -t 2 -p 0 -n 0 -gp 64,8 -r 3 -o json");
}

// As llama.cpp prints it, as ik_llama.cpp does (no n_depth), and ours.
TEST(LlamaBench, ResultsAreFoundByTheirTest) {
  const std::string llama =
      R"([{"build_commit":"abc","build_number":7,"n_prompt":512,"n_gen":0,"n_depth":0,"samples_ts":[1,2]},
    {"build_commit":"abc","build_number":0,"n_prompt":0,"n_gen":128,"n_depth":64,"n_threads":2,"samples_ts":[3.5],
     "model_type":"llama","model_size":5,"model_n_params":6}])";
  const auto prompt = parse_bench_json(llama, {.n_prompt = 512});
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  EXPECT_EQ(prompt->samples, (std::vector<double>{1, 2}));
  EXPECT_EQ(prompt->version, "abc (7)");
  const auto deep = parse_bench_json(llama, {.n_gen = 128, .n_depth = 64});
  ASSERT_TRUE(deep.ok());
  EXPECT_EQ(deep->version, "abc");
  EXPECT_EQ(deep->n_threads, 2);
  EXPECT_EQ(deep->model_type, "llama");
  EXPECT_EQ(deep->model_bytes + deep->n_params, 11U);
  EXPECT_EQ(parse_bench_json(llama, {.n_gen = 128}).error().message, "printed no result for tg128");
  EXPECT_FALSE(parse_bench_json(llama, {.n_gen = 128, .n_depth = 64, .n_batch = 2}).ok());

  const std::string ik =
      R"([{"n_prompt":64,"n_gen":8,"test":"tg8@pp64","samples_ts":[4]},{"n_prompt":64,"n_gen":0,"samples_ts":[5]}])";
  EXPECT_EQ(parse_bench_json(ik, {.n_gen = 8, .n_depth = 64})->samples[0], 4);
  EXPECT_EQ(parse_bench_json(ik, {.n_prompt = 64})->samples[0], 5);

  const std::string own = R"([{"n_prompt":9,"n_gen":0,"n_depth":9,"turn":2,"samples_ts":[1],"samples_ms":[6]},
    {"n_prompt":0,"n_gen":8,"n_depth":0,"n_sequences":4,"turn":0,"step_bytes":77,"samples_ts":[7]}])";
  EXPECT_EQ(parse_bench_json(own, {.turn = 2, .turn_tokens = 9})->samples[0], 6);
  EXPECT_EQ(parse_bench_json(own, {.n_gen = 8, .n_batch = 4})->step_bytes, 77);
  EXPECT_FALSE(parse_bench_json(own, {.n_prompt = 9, .n_depth = 9}).ok());
}

TEST(LlamaBench, GarbageIsAnError) {
  const auto message = [](const char* text) { return parse_bench_json(text, {.n_prompt = 1}).error().message; };
  for (const char* text : {"", "oops", "{}", "[{\"n_prompt\":"})
    EXPECT_EQ(message(text), "printed no JSON list") << text;
  for (const char* text : {"[]", "[1,null]", R"([{"n_prompt":"1","n_gen":0}])"})
    EXPECT_EQ(message(text), "printed no result for pp1") << text;
  for (const char* samples : {"", R"(,"samples_ts":[])", R"(,"samples_ts":[1,0])", R"(,"samples_ts":["1"])",
                              R"(,"samples_ts":3)", R"(,"samples_ts":[-1])"}) {
    const std::string text = std::string(R"([{"n_prompt":1,"n_gen":0)") + samples + "}]";
    EXPECT_EQ(message(text.c_str()), "printed no speeds (samples_ts) for pp1") << samples;
  }
}

}  // namespace
}  // namespace quern::measure
