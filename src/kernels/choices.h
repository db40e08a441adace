// Choices: which kernel answers which query on this box, where a measurement said otherwise than priority does. A small
// immutable table; it never changes a bit of a result, because it can only name rows that serve the query.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/registry.h"

namespace quern::kernels {

struct Choice {
  Query query;
  std::string kernel;  // its name
};

class Choices {
 public:
  Choices() = default;
  // isa_mask: tiers that may be named. Errors (not_found, naming kernel and query): no row of that name answers the
  // query.
  static Result<Choices> create(const std::vector<Choice>& choices, uint32_t isa_mask);
  // The row chosen for exactly this query; null: none, priority decides.
  const Kernel* find(const Query& query) const;
  size_t size() const { return rows_.size(); }

 private:
  struct Row {
    Query query;
    const Kernel* kernel;
  };
  std::vector<Row> rows_;
};

// The row that `choices` names for the query, else the one of highest priority. choices may be null.
const Kernel* find_kernel(const Query& query, uint32_t isa_mask, const Choices* choices);

// "matmul Q4_1 x q8_32, x16, decode, [1536 x 576]"
std::string to_text(const Query& query);

// Changes whenever a row is added, removed, renamed or given another key, tier or priority: what was measured with
// another registry says nothing about this one.
uint64_t registry_hash();

// The inverse of op_name and its like; not_found names what there is no such word for.
Result<Op> parse_op(std::string_view name);
Result<format::Format> parse_weight_format(std::string_view name);
Result<ActivationFormat> parse_act_format(std::string_view name);
Result<Layout> parse_layout(std::string_view name);
Result<RowClass> parse_row_class(std::string_view name);

}  // namespace quern::kernels
