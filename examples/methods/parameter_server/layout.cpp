#include "methods/parameter_server/layout.hpp"

#include <sstream>

#include "kolo/error.hpp"
#include "kolo/train/distributed_data_parallel.hpp"

namespace kolo::methods {
namespace {

void require(bool holds, const std::string& name, const std::string& why) {
  if (!holds) throw InvalidArgumentError("parameter '" + name + "' " + why, {});
}

}  // namespace

ServerLayout::ServerLayout(const torch::nn::Module& module, const ParameterServerOptions& options)
    : servers_(options.servers) {
  DistributedDataParallelOptions with_tables;
  with_tables.sparse_parameters = options.sparse_parameters;
  std::uint64_t next_id = 0;
  for (const PlacedParameter& parameter : placed_parameters(module, with_tables)) {
    if (!parameter.is_trained) continue;
    const std::string& name = parameter.name;
    const at::Tensor& tensor = parameter.tensor;
    require(tensor.scalar_type() == at::kFloat, name,
            std::string("is of type ") + c10::toString(tensor.scalar_type()) +
                ": parameter servers hold float32");
    if (!parameter.has_sparse_gradients) {
      parameters_.push_back(parameter);
      elements_ += static_cast<std::uint64_t>(tensor.numel());
      continue;
    }
    require(options.push == PushKind::gradients, name, "is a table of rows: weights are pushed whole");
    require(tensor.is_contiguous(), name, "is a table whose rows are not contiguous");
    const auto rows = static_cast<std::uint64_t>(tensor.size(0));
    tables_.push_back({name, tensor, rows, static_cast<std::uint64_t>(tensor.numel()) / rows, next_id});
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
  for (const auto& named : parameters_) {
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
  for (const auto& named : parameters_) {
    views.push_back(flat.as_strided(named.tensor.sizes(), named.tensor.strides(), offset));
    offset += named.tensor.numel();
  }
  return views;
}

}  // namespace kolo::methods
