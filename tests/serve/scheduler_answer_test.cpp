// What a request gets: the same tokens as alone, prefixes from the cache, stop strings, likelihoods, masks, insertions.
#include <cmath>

#include "grammar/vocabulary.h"
#include "serve/grammar_mask.h"
#include "serve_testing.h"
#include "token/detokenizer.h"

namespace quern::serve {
namespace {

using engine::some_tokens;

// A mask of listed ids, with tokens that it forces after the first.
class ListMask final : public TokenMask {
 public:
  ListMask(std::vector<int32_t> ids, int n_vocab) : ids_(std::move(ids)), bits_(static_cast<size_t>(n_vocab) / 64 + 1) {
    for (const int32_t id : ids_) bits_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  }
  Result<std::span<const uint64_t>> mask() override { return std::span<const uint64_t>(bits_); }
  Result<void> accept(int32_t id) override {
    accepted.push_back(id);
    if (accepted.size() == fail_at) return Error{Status::limit_exceeded, "the grammar is too ambiguous"};
    return {};
  }
  Result<std::vector<int32_t>> forced() override {
    if (accepted.size() != force_after) return std::vector<int32_t>{};
    return to_force;
  }
  std::vector<int32_t> accepted, to_force;
  size_t fail_at = SIZE_MAX, force_after = SIZE_MAX;

 private:
  std::vector<int32_t> ids_;
  std::vector<uint64_t> bits_;
};

class SchedulerModels : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Scheduler, SchedulerModels, ::testing::Values("llama", "gemma3", "qwen3moe", "gpt-oss"),
                         [](const auto& which) {
                           std::string name = which.param;
                           std::erase(name, '-');
                           return name;
                         });

// A chat of three turns; a new turn at its middle; all of it again: each time what is shared is not evaluated, and the
// tokens are those of a fresh session.
TEST_P(SchedulerModels, PrefixesAreReusedAndChangeNothing) {
  const auto reference = load_tiny(GetParam());
  const auto scheduler = start(load_tiny(GetParam()));
  token::SamplerOptions sampling;
  sampling.seed = 3;
  std::vector<int32_t> chat = some_tokens(70, 1);
  int n_known = 0;
  std::vector<int32_t> second_turn;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    Request r = request(chat, 20, sampling);
    r.ignore_eog = true;
    token::SamplerOptions plain = sampling;
    for (int32_t id = 0; id < reference->tokenizer().size(); ++id) {
      if (reference->tokenizer().is_eog(id)) plain.logit_bias.emplace_back(id, -INFINITY);
    }
    const Answer answer = ask(*scheduler, std::move(r));
    EXPECT_EQ(answer.tokens, alone(*reference, chat, 20, plain).tokens);
    EXPECT_EQ(answer.finish.n_cached, n_known);
    EXPECT_EQ(answer.prompt.n_cached, n_known);
    EXPECT_EQ(answer.prompt.n_prompt, static_cast<int>(chat.size()));
    chat.insert(chat.end(), answer.tokens.begin(), answer.tokens.end());
    n_known = static_cast<int>(chat.size()) - 1;  // the last token was not evaluated
    for (const int32_t id : some_tokens(9, turn + 10)) chat.push_back(id);
    if (turn == 0) second_turn = chat;
  }
  second_turn.back() ^= 1;
  const Answer branch = ask(*scheduler, request(second_turn, 8, sampling));
  EXPECT_EQ(branch.finish.n_cached, static_cast<int>(second_turn.size()) - 1);
  EXPECT_EQ(branch.tokens, alone(*reference, second_turn, 8, sampling).tokens);
  const Answer again = ask(*scheduler, request(chat, 8, sampling));  // the branch took nothing away
  EXPECT_EQ(again.finish.n_cached, n_known);
  EXPECT_EQ(again.tokens, alone(*reference, chat, 8, sampling).tokens);
  EXPECT_EQ(scheduler->stats().n_prefix_hits, 4U);
  Request fresh = request(chat, 8, sampling);
  fresh.use_cache = false;
  EXPECT_EQ(ask(*scheduler, std::move(fresh)).finish.n_cached, 0);
}

// Many requests with one beginning, at once: pages are shared with a running row.
TEST_P(SchedulerModels, ARunningRowsPromptIsShared) {
  const auto reference = load_tiny(GetParam());
  const auto engine = load_tiny(GetParam());
  Gate gate;
  const auto scheduler = start(engine);
  Request held = request(some_tokens(5, 9), 1);
  held.mask = std::make_unique<GateMask>(gate, engine->n_vocab());
  const Submission first = scheduler->submit(std::move(held));
  gate.wait_reached();
  std::vector<Submission> all;
  for (uint64_t i = 0; i < 6; ++i) {
    token::SamplerOptions sampling;
    sampling.seed = i;
    all.push_back(scheduler->submit(request(some_tokens(100, 1), 24, sampling)));
  }
  gate.release();
  int n_cached = 0;
  for (uint64_t i = 0; i < 6; ++i) {
    token::SamplerOptions sampling;
    sampling.seed = i;
    const Answer answer = read_all(*all[i].stream);
    EXPECT_EQ(answer.tokens, alone(*reference, some_tokens(100, 1), 24, sampling).tokens) << i;
    n_cached += answer.finish.n_cached;
  }
  EXPECT_EQ(n_cached, 5 * 99);
}

TEST(Scheduler, StopStringsCutTheTextExactly) {
  const auto reference = load_tiny("llama");
  const auto scheduler = start(load_tiny("llama"));
  token::SamplerOptions sampling;
  sampling.seed = 11;
  const Answer whole = alone(*reference, some_tokens(12, 4), 60, sampling);
  ASSERT_GT(whole.text.size(), 30U);
  const Answer same = ask(*scheduler, request(some_tokens(12, 4), 60, sampling));
  EXPECT_EQ(same.text, whole.text);
  int n_stopped = 0;
  for (size_t at = 3; at + 5 < whole.text.size(); at += 7) {
    const std::string stop = whole.text.substr(at, 5);
    Request r = request(some_tokens(12, 4), 60, sampling);
    r.stop = {"never there", stop};
    const Answer answer = ask(*scheduler, std::move(r));
    EXPECT_EQ(answer.text, whole.text.substr(0, whole.text.find(stop)));
    EXPECT_EQ(answer.finish.reason, FinishReason::stop);
    EXPECT_EQ(answer.finish.matched_stop, stop);
    ASSERT_LE(answer.tokens.size(), whole.tokens.size());
    EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), whole.tokens.begin()));
    ++n_stopped;
  }
  EXPECT_GT(n_stopped, 2);
  // A token that stops is the end token and no text.
  Request by_token = request(some_tokens(12, 4), 60, sampling);
  by_token.stop_tokens = {whole.tokens[4]};
  const Answer ended = ask(*scheduler, std::move(by_token));
  EXPECT_EQ(ended.finish.reason, FinishReason::eog);
  EXPECT_EQ(ended.finish.end_token, whole.tokens[4]);
  EXPECT_LE(ended.tokens.size(), 4U);
}

TEST(Scheduler, LikelihoodsAreTheModels) {
  const auto reference = load_tiny("llama");
  const auto scheduler = start(load_tiny("llama"));
  const auto prompt = some_tokens(150, 5);
  Request r = request(prompt, 6);
  r.sampling.logit_bias = {{3, 2.0F}};
  r.n_logprobs = 4;
  r.n_prompt_logprobs = 2;
  const Answer answer = ask(*scheduler, std::move(r));
  auto all = prompt;
  all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
  ASSERT_EQ(answer.prompt.scores.size(), prompt.size());
  ASSERT_EQ(answer.scores.size(), answer.tokens.size());
  EXPECT_TRUE(std::isnan(answer.prompt.scores[0].log_prob));
  const auto session = std::move(reference->new_session()).value();
  const size_t n_vocab = static_cast<size_t>(reference->n_vocab());
  size_t n_compared = 0;
  const auto compare = [&](int first, int n, std::span<const float> logits) -> Result<void> {
    for (int i = 0; i < n; ++i) {
      const size_t next = static_cast<size_t>(first + i + 1);
      if (next >= all.size()) break;
      const TokenScore& score = next < prompt.size() ? answer.prompt.scores[next] : answer.scores[next - prompt.size()];
      const auto row = logits.subspan(static_cast<size_t>(i) * n_vocab, n_vocab);
      EXPECT_EQ(score.id, all[next]);
      EXPECT_EQ(score.log_prob, token::log_prob(row, all[next]));
      const auto top = token::top_log_probs(row, next < prompt.size() ? 2 : 4);
      EXPECT_EQ(score.top.size(), top.size());
      for (size_t k = 0; k < std::min(top.size(), score.top.size()); ++k) {
        EXPECT_EQ(score.top[k].id, top[k].id);
        EXPECT_EQ(score.top[k].log_prob, top[k].log_prob);
      }
      ++n_compared;
    }
    return {};
  };
  ASSERT_TRUE(session->logits_of_all(all, compare).ok());
  EXPECT_EQ(n_compared, all.size() - 1);
  // Of the prompt alone, without a token.
  Request only = request(prompt, 0);
  only.n_prompt_logprobs = 0;
  const Answer scored = ask(*scheduler, std::move(only));
  EXPECT_EQ(scored.finish.reason, FinishReason::max_tokens);
  EXPECT_TRUE(scored.tokens.empty());
  EXPECT_EQ(scored.prompt.scores.size(), prompt.size());
}

// While a long prompt's likelihoods are computed, which takes one call of the engine, others go on; and it can end.
TEST(Scheduler, ScoringAPromptHoldsNobodyUp) {
  const auto scheduler = start(load_tiny("llama", 8192));
  const Submission running = scheduler->submit(endless(some_tokens(5, 1)));
  Answer answer;
  ASSERT_TRUE(read_until(*running.stream, answer, [](const Answer& a) { return !a.tokens.empty(); }));
  Request r = request(some_tokens(1280, 2), 0);
  r.n_prompt_logprobs = 1;
  const Submission scored = scheduler->submit(std::move(r));
  while (scored.stream->progress().n_prompt_done == 0) std::this_thread::yield();
  const int before = running.stream->progress().n_generated;
  EXPECT_EQ(read_all(*scored.stream).prompt.scores.size(), 1280U);
  EXPECT_GE(running.stream->progress().n_generated - before, 10);  // one a chunk of 64
  Request long_one = request(some_tokens(8000, 3), 0);
  long_one.n_prompt_logprobs = 1;
  const Submission dropped = scheduler->submit(std::move(long_one));
  while (dropped.stream->progress().n_prompt_done == 0) std::this_thread::yield();
  dropped.stream->cancel();
  EXPECT_EQ(read_all(*dropped.stream).finish.reason, FinishReason::cancelled);
}

// A real grammar, with and without taking forced tokens at once, alone and in company: the same text, which is whole.
TEST(Scheduler, AGrammarsTextIsWhole) {
  const auto engine = load_tiny("llama");
  const auto scheduler = start(engine);
  const auto vocabulary = std::move(grammar::Vocabulary::create(engine->tokenizer())).value();
  const auto grammar =
      std::move(grammar::Grammar::from_gbnf("root ::= \"a list: \" (\"ab\" | \"ba\") [0-9] [0-9] \" end\"")).value();
  const auto constraint = std::move(grammar::Constraint::create(grammar, vocabulary)).value();
  std::vector<Submission> all;
  for (uint64_t i = 0; i < 12; ++i) {
    Request r = request(some_tokens(10, static_cast<uint32_t>(i % 3)), 100);
    r.sampling.temperature = 1;
    r.sampling.seed = i % 6;
    r.mask = std::make_unique<GrammarMask>(std::move(grammar::Matcher::create(constraint)).value(), i % 2 == 0);
    all.push_back(scheduler->submit(std::move(r)));
  }
  std::vector<std::string> texts;
  for (const Submission& s : all) {
    const Answer answer = read_all(*s.stream);
    EXPECT_EQ(answer.finish.reason, FinishReason::eog);
    const auto match = grammar::match_text(grammar, answer.text);
    ASSERT_TRUE(match.ok());
    EXPECT_TRUE(match->complete) << answer.text;
    texts.push_back(answer.text);
  }
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(texts[i], texts[i + 6]);
}

TEST(Scheduler, AMaskDecidesWhatMayCome) {
  const auto engine = load_tiny("llama");
  const int n_vocab = engine->n_vocab();
  const auto scheduler = start(engine);
  Request r = request(some_tokens(10, 1), 12);
  r.mask = std::make_unique<ListMask>(std::vector<int32_t>{70, 71, 99}, n_vocab);
  r.sampling.temperature = 2;
  r.sampling.logit_bias = {{50, INFINITY}};  // what the mask forbids stays forbidden
  for (const int32_t id : ask(*scheduler, std::move(r)).tokens) EXPECT_TRUE(id == 70 || id == 71 || id == 99) << id;

  Request none = request(some_tokens(10, 1), 12);
  none.mask = std::make_unique<ListMask>(std::vector<int32_t>{}, n_vocab);
  const Answer impossible = ask(*scheduler, std::move(none));
  EXPECT_EQ(impossible.finish.reason, FinishReason::error);

  Request failing = request(some_tokens(10, 1), 12);
  auto mask = std::make_unique<ListMask>(std::vector<int32_t>{70}, n_vocab);
  mask->fail_at = 3;
  failing.mask = std::move(mask);
  const Answer failed = ask(*scheduler, std::move(failing));
  EXPECT_EQ(failed.finish.reason, FinishReason::error);
  EXPECT_EQ(failed.finish.error->status, Status::limit_exceeded);
  EXPECT_EQ(failed.tokens.size(), 2U);
}

// Forced tokens are evaluated together; what follows them is what follows them in a prompt.
TEST(Scheduler, ForcedTokensAreTakenWithoutSampling) {
  const auto reference = load_tiny("llama"), engine = load_tiny("llama");
  const auto scheduler = start(engine);
  std::vector<int32_t> any(static_cast<size_t>(engine->tokenizer().size()));
  for (size_t i = 0; i < any.size(); ++i) any[i] = static_cast<int32_t>(i);
  const std::vector<int32_t> forced = some_tokens(7, 3);
  for (const int n_logprobs : {-1, 0}) {
    auto mask = std::make_unique<ListMask>(any, engine->n_vocab());
    mask->force_after = 4;
    mask->to_force = forced;
    Request r = request(some_tokens(10, 1), 20);
    r.mask = std::move(mask);
    r.n_logprobs = n_logprobs;
    r.ignore_eog = true;
    const Answer answer = ask(*scheduler, std::move(r));
    ASSERT_EQ(answer.tokens.size(), 20U);
    EXPECT_TRUE(std::equal(forced.begin(), forced.end(), answer.tokens.begin() + 4));
    auto prompt = some_tokens(10, 1);
    prompt.insert(prompt.end(), answer.tokens.begin(), answer.tokens.begin() + 11);
    token::SamplerOptions plain = greedy();
    for (int32_t id = 0; id < reference->tokenizer().size(); ++id) {
      if (reference->tokenizer().is_eog(id)) plain.logit_bias.emplace_back(id, -INFINITY);
    }
    const Answer rest = alone(*reference, prompt, 9, plain);
    EXPECT_TRUE(std::equal(rest.tokens.begin(), rest.tokens.end(), answer.tokens.begin() + 11, answer.tokens.end()));
  }
}

// A character of several tokens comes with the last of them; half of one comes at the end, as a replacement.
TEST(Scheduler, CharactersComeWhole) {
  const auto engine = load_tiny("llama");  // ids 0 to 255 are bytes
  const auto scheduler = start(engine);
  const auto pieces_of_forced = [&](const std::vector<int32_t>& bytes) {
    auto mask = std::make_unique<ListMask>(std::vector<int32_t>{65}, engine->n_vocab());
    mask->force_after = 0;
    mask->to_force = bytes;
    Request r = request(some_tokens(10, 1), static_cast<int>(bytes.size()));
    r.mask = std::move(mask);
    const Submission submitted = scheduler->submit(std::move(r));
    std::vector<std::string> pieces;
    while (!submitted.stream->finished()) {
      for (const Event& event : submitted.stream->wait(kLong)) {
        if (const auto* token = std::get_if<Token>(&event)) pieces.push_back(plain_text(token->pieces));
        if (const auto* finish = std::get_if<Finish>(&event)) pieces.push_back(plain_text(finish->pieces));
      }
    }
    return pieces;
  };
  EXPECT_EQ(pieces_of_forced({0xF0, 0x9F, 0x98, 0x80}), (std::vector<std::string>{"", "", "", "\U0001F600", ""}));
  EXPECT_EQ(pieces_of_forced({0xF0, 0x9F, 'a'}), (std::vector<std::string>{"", "", "\uFFFDa", ""}));
  EXPECT_EQ(pieces_of_forced({'a', 0xE4, 0xB8}), (std::vector<std::string>{"a", "", "", "\uFFFD"}));
}

// Of an answer that begins in reasoning, or not.
std::unique_ptr<token::ReplyParser> parser_in(const engine::Engine& engine, bool reasoning) {
  auto parser = token::make_reply_parser(token::ReplyFormat::think, &engine.tokenizer());
  parser->follow({reasoning ? "<think>" : "<think></think>", {}});
  return parser;
}

TEST(Scheduler, AnInsertionComesOnceAndOnlyIntoReasoning) {
  const auto engine = load_tiny("llama");  // ids 0 to 255 are bytes
  const auto scheduler = start(engine);
  const std::vector<int32_t> ids = {101, 102, 103};
  const std::string_view close = "</think>";
  const auto ask_with = [&](int after, bool reasoning, bool closes) {
    Request r = request(some_tokens(10, 1), 20);
    r.ignore_eog = true;
    if (closes) {  // before the third token
      auto mask = std::make_unique<ListMask>(std::vector<int32_t>{65}, engine->n_vocab());
      mask->force_after = 2;
      mask->to_force.assign(close.begin(), close.end());
      r.mask = std::move(mask);
    }
    r.insertion = Insertion{after, ids, parser_in(*engine, reasoning)};
    return ask(*scheduler, std::move(r)).tokens;
  };
  const auto with = ask_with(6, true, false), without = ask_with(-1, true, false);
  ASSERT_EQ(with.size(), 20U);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), with.begin() + 6));
  EXPECT_TRUE(std::equal(with.begin(), with.begin() + 6, without.begin()));
  EXPECT_EQ(std::search(without.begin(), without.end(), ids.begin(), ids.end()), without.end());
  EXPECT_EQ(ask_with(6, false, false), without) << "there is no reasoning to end";
  const auto closed = ask_with(6, true, true);
  EXPECT_NE(std::search(closed.begin(), closed.end(), close.begin(), close.end()), closed.end());
  EXPECT_EQ(std::search(closed.begin(), closed.end(), ids.begin(), ids.end()), closed.end());
  const auto before = ask_with(1, true, true);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), before.begin() + 1)) << "the control: before it is closed";

  Request live = endless(some_tokens(10, 1));
  live.insertion = Insertion{-1, ids, parser_in(*engine, true)};
  const Submission running = scheduler->submit(std::move(live));
  Answer answer;
  ASSERT_TRUE(read_until(*running.stream, answer, [](const Answer& a) { return a.tokens.size() >= 5; }));
  running.stream->insert_now();
  ASSERT_TRUE(read_until(*running.stream, answer, [](const Answer&) { return false; }));
  const auto at = std::search(answer.tokens.begin(), answer.tokens.end(), ids.begin(), ids.end());
  EXPECT_TRUE(at != answer.tokens.end() && at - answer.tokens.begin() >= 5);
}

}  // namespace
}  // namespace quern::serve
