// The same as hello.c through the C++ wrapper.   hello_cpp MODEL.gguf [QUESTION]
#include <iostream>

#include "quern/quern.hpp"

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: hello_cpp MODEL.gguf [QUESTION]\n";
    return 2;
  }
  const quern::api::Engine engine(argv[1]);
  quern::api::Session session(engine);
  quern_sampling sampling = quern_sampling_defaults();
  sampling.temperature = 0;
  const auto ids = engine.chat_tokens({{"user", argc > 2 ? argv[2] : "Why is the sky blue?"}});
  const int n = session.generate(ids, sampling, 64, [](std::string_view text) {
    std::cout << text << std::flush;
    return true;
  });
  std::cout << "\n[" << n << " tokens]\n";
  return 0;
} catch (const quern::api::Failure& failure) {
  std::cerr << failure.what() << "\n";
  return 1;
}
