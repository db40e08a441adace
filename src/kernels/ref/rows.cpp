// ref: the rows of the registry. Every op, every weight format, priority 0, any instruction set.
#include "kernels/ref/ref.h"

namespace quern::kernels::ref {
namespace {

constexpr Kernel any(Op op, const char* name, KernelFn fn) {
  return {{op}, Isa::generic, 0, name, fn};
}

std::vector<Kernel> make_rows() {
  std::vector<Kernel> rows = {
      any(Op::rope_table, "ref.rope_table", &Erased<&rope_table>::call),
      any(Op::rms_norm, "ref.rms_norm", &Erased<&rms_norm>::call),
      any(Op::route, "ref.route", &Erased<&route>::call),
      any(Op::read_ahead, "ref.read_ahead", &Erased<&read_ahead>::call),
      any(Op::bucket, "ref.bucket", &Erased<&bucket>::call),
      any(Op::combine, "ref.combine", &Erased<&combine>::call),
      any(Op::row_gate, "ref.row_gate", &Erased<&row_gate>::call),
      any(Op::add, "ref.add", &Erased<&add>::call),
      any(Op::head_norm, "ref.head_norm", &Erased<&head_norm>::call),
      any(Op::rope, "ref.rope", &Erased<&rope>::call),
      any(Op::temperature, "ref.temperature", &Erased<&temperature>::call),
      any(Op::kv_store, "ref.kv_store", &Erased<&kv_store>::call),
      any(Op::attention, "ref.attention", &Erased<&attention>::call),
      any(Op::attention_parts, "ref.attention_parts", &Erased<&attention_parts>::call),
      any(Op::attention_merge, "ref.attention_merge", &Erased<&attention_merge>::call),
      any(Op::act_mul, "ref.act_mul", &Erased<&act_mul>::call),
      any(Op::softcap, "ref.softcap", &Erased<&softcap>::call),
  };
  const auto forms = [](ActivationFormat act) {  // of the same numbers
    return std::vector<ActivationFormat>{act, format::two_planes(act), format::in_tiles(act),
                                         format::in_tiles(format::two_planes(act))};
  };
  for (const ActivationFormat one : {ActivationFormat::q8_32, ActivationFormat::q8_256}) {
    for (const ActivationFormat act : forms(one)) {
      rows.push_back(
          {{Op::quantize, format::Format::f32, act}, Isa::generic, 0, "ref.quantize", &Erased<&quantize>::call});
      if (format::is_tiled(act) && format::plane_count(act) == 1) {
        rows.push_back({{Op::gather, format::Format::f32, act}, Isa::generic, 0, "ref.gather", &Erased<&gather>::call});
      }
    }
  }
  for (int i = 0; i < format::kFormatCount; ++i) {
    const auto f = static_cast<format::Format>(i);
    rows.push_back({{Op::embed, f}, Isa::generic, 0, "ref.embed", &Erased<&embed>::call});
    const ActivationFormat act = format::activation_for(f);
    const auto one = std::vector<ActivationFormat>{act};
    for (const ActivationFormat form : act == ActivationFormat::f32 ? one : forms(act)) {
      rows.push_back({{Op::matmul, f, form}, Isa::generic, 0, "ref.matmul", &Erased<&matmul>::call});
      if (format::plane_count(form) != 1) continue;
      const auto serve = [&](Op op, const char* name, KernelFn fn) {
        rows.push_back({{op, f, form}, Isa::generic, 0, name, fn});
      };
      serve(Op::gated_matmul, "ref.gated_matmul", &Erased<&gated_matmul>::call);
      serve(Op::expert_matmul, "ref.expert_matmul", &Erased<&expert_matmul>::call);
      serve(Op::expert_gated, "ref.expert_gated", &Erased<&expert_gated>::call);
      serve(Op::expert_sum, "ref.expert_sum", &Erased<&expert_sum>::call);
    }
    rows.push_back({{Op::repack, f, ActivationFormat::f32, Layout::x16},
                    Isa::generic,
                    0,
                    "ref.repack_x16",
                    &Erased<&repack_x16>::call});
  }
  return rows;
}

}  // namespace

std::span<const Kernel> rows() {
  static const std::vector<Kernel> all = make_rows();
  return all;
}

}  // namespace quern::kernels::ref
