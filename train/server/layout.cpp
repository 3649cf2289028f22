#include "server/layout.hpp"

#include <algorithm>
#include <sstream>

#include "kolo/error.hpp"
#include "ranks/model.hpp"

namespace kolo::train {
namespace {

Model model_of(const torch::nn::Module& module, const ParameterServerOptions& options) {
  DistributedDataParallelOptions with_tables;
  with_tables.sparse_parameters = options.sparse_parameters;
  return {module, with_tables};
}

void require(bool holds, const NamedTensor& named, const std::string& why) {
  if (!holds) throw InvalidArgumentError("parameter '" + named.name + "' " + why, {});
}

}  // namespace

ServerLayout::ServerLayout(const torch::nn::Module& module, const ParameterServerOptions& options)
    : servers_(options.servers) {
  const Model model = model_of(module, options);
  std::uint64_t next_id = 0;
  for (std::size_t i = 0; i < model.trainable.size(); ++i) {
    const NamedTensor& named = model.trainable[i];
    require(named.tensor.scalar_type() == at::kFloat, named,
            std::string("is of type ") + c10::toString(named.tensor.scalar_type()) +
                ": parameter servers hold float32");
    if (std::ranges::find(model.tables, i) == model.tables.end()) {
      parameters_.push_back(named);
      elements_ += static_cast<std::uint64_t>(named.tensor.numel());
      continue;
    }
    require(options.push == PushKind::gradients, named, "is a table of rows: weights are pushed whole");
    require(named.tensor.is_contiguous(), named, "is a table whose rows are not contiguous");
    const auto rows = static_cast<std::uint64_t>(named.tensor.size(0));
    const auto width = static_cast<std::uint64_t>(named.tensor.numel()) / rows;
    tables_.push_back({named.name, named.tensor, rows, width, next_id});
    next_id += rows;
  }
  if (elements_ < static_cast<std::uint64_t>(servers_) && !parameters_.empty()) {
    throw InvalidArgumentError(
        "there are " + std::to_string(servers_) + " servers for " + std::to_string(elements_) + " elements",
        {});
  }
}

ElementRange ServerLayout::share_of(int server) const {
  const auto at = [&](int i) {
    return elements_ * static_cast<std::uint64_t>(i) / static_cast<std::uint64_t>(servers_);
  };
  return {at(server), at(server + 1)};
}

std::uint64_t ServerLayout::rows_on(int server, const ServerTable& table) const {
  const auto first = static_cast<std::uint64_t>(server), servers = static_cast<std::uint64_t>(servers_);
  return table.rows <= first ? 0 : (table.rows - first - 1) / servers + 1;
}

std::uint64_t ServerLayout::rows_on(int server) const {
  std::uint64_t sum = 0;
  for (const ServerTable& table : tables_) sum += rows_on(server, table);
  return sum;
}

std::string ServerLayout::text() const {
  std::ostringstream text;
  for (const NamedTensor& named : parameters_) {
    text << "parameter '" << named.name << "' of shape " << named.tensor.sizes() << " and strides "
         << named.tensor.strides() << '\n';
  }
  for (const ServerTable& table : tables_)
    text << "table '" << table.name << "' of " << table.rows << " x " << table.width << '\n';
  return text.str();
}

std::vector<at::Tensor> ServerLayout::views_of(const at::Tensor& flat) const {
  std::vector<at::Tensor> views;
  std::int64_t offset = 0;
  for (const NamedTensor& named : parameters_) {
    views.push_back(flat.as_strided(named.tensor.sizes(), named.tensor.strides(), offset));
    offset += named.tensor.numel();
  }
  return views;
}

}  // namespace kolo::train
