// Records of the board: any bytes are a record or a named error, and every record becomes a page with no more script,
// style or comment in it than the page's own.
#include <cstdlib>
#include <string>
#include <string_view>

#include "measure/board.h"

namespace {

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace quern::measure::board;
  const auto record = parse_record({reinterpret_cast<const char*>(bytes), size}, "record");
  if (!record.ok()) {
    if (!record.error().message.starts_with("record: ")) std::abort();
    return 0;
  }
  const auto html = board_html({*record, *record});
  if (!html.ok()) std::abort();
  if (count(*html, "<script") != 1 || count(*html, "<style") != 1 || count(*html, "<!--") != 0) std::abort();
  // Text of a record holds no quotation mark in the page, so these are places and sizes.
  for (const char* name :
       {" x=\"", " y=\"", " cx=\"", " cy=\"", " x1=\"", " x2=\"", " y1=\"", " y2=\"", " width=\"", " height=\""})
    for (const char* bad : {"nan", "-nan", "inf", "-inf"})
      if (html->find(std::string(name) + bad) != std::string::npos) std::abort();
  return 0;
}
