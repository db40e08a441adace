// Help text and documentation of the option table, and the guess at a mistyped word.
#include <algorithm>
#include <charconv>
#include <limits>

#include "base/options.h"

namespace quern {
namespace {

std::string number(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x);
  return {text, end.ptr};
}

std::string left_column(const OptionRow& row) {
  std::string text = row.letter[0] != '\0' ? std::string("-") + row.letter + ", " : "    ";
  text += std::string("--") + row.name;
  if (row.placeholder[0] != '\0') text += std::string(" ") + row.placeholder;
  return text;
}

// Breaks text at spaces so that no line passes `width`, and indents every line but the first.
std::string wrap(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    if (column > indent && column + 1 + end - begin > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ', ++column;
    }
    out.append(text, begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return out;
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text;
}

// Letters to add, leave out, change or swap with the next.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = last;
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string option_range(const OptionRow& row) {
  switch (row.type) {
    case OptionType::integer:
    case OptionType::integers:
      return std::to_string(static_cast<int64_t>(row.min)) + " to " + std::to_string(static_cast<int64_t>(row.max));
    case OptionType::real:
      return number(row.min) + " to " + number(row.max);
    case OptionType::choice: {
      std::string list(row.choices);
      for (size_t at = 0; (at = list.find('|', at)) != std::string::npos; at += 2) list.replace(at, 1, ", ");
      return list;
    }
    default:
      return "";
  }
}

std::string option_notes(const OptionRow& row) {
  std::string notes;
  const auto note = [&](const std::string& text) {
    if (!text.empty()) notes += (notes.empty() ? " (" : "; ") + text;
  };
  if (row.fallback[0] != '\0') note(std::string("default ") + row.fallback);
  note(option_range(row));
  if (row.repeats) note("may be repeated");
  note(row.env);
  return notes.empty() ? "" : notes + ")";
}

std::string options_help(std::span<const OptionRow> rows, std::string_view command) {
  constexpr size_t kColumn = 34, kWidth = 110;
  std::string out;
  for (const OptionRow& row : rows) {
    if (!option_belongs(row, command)) continue;
    const std::string notes = option_notes(row);
    std::string line = "  " + left_column(row);
    if (line.size() + 2 > kColumn) {
      line += "\n" + std::string(kColumn, ' ');
    } else {
      line.resize(kColumn, ' ');
    }
    out += line + wrap(row.help + notes, kColumn, kWidth) + "\n";
  }
  return out;
}

std::string options_markdown(std::span<const OptionRow> rows, std::string_view command) {
  std::string out = "| option | default | allowed | environment | meaning |\n|---|---|---|---|---|\n";
  for (const OptionRow& row : rows) {
    if (!option_belongs(row, command)) continue;
    std::string option = left_column(row);
    option.erase(0, option.find_first_not_of(' '));
    const auto code = [](const char* text) {
      return text[0] == '\0' ? std::string() : std::string("`").append(cell(text)).append("`");
    };
    out += "| `" + cell(option) + "`" + (row.repeats ? " (repeats)" : "") + " | " + code(row.fallback) + " | " +
           cell(option_range(row)) + " | " + code(row.env) + " | " + cell(row.help) + " |\n";
  }
  return out;
}

std::string environment_markdown(std::span<const OptionRow> rows, std::span<const EnvRow> others) {
  std::map<std::string, std::string> lines;
  for (const OptionRow& row : rows) {
    if (row.env[0] != '\0') lines.emplace(row.env, std::string("the default of `--") + row.name + "`: " + row.help);
  }
  for (const EnvRow& row : others) lines.emplace(row.name, row.help);
  std::string out = "| variable | meaning |\n|---|---|\n";
  for (const auto& [name, help] : lines) out += "| `" + name + "` | " + cell(help) + " |\n";
  return out;
}

std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best_distance = distance, best = candidate;
  }
  const size_t near = std::max<size_t>(1, word.size() / 3);
  return best_distance <= near ? best : std::nullopt;
}

}  // namespace quern
