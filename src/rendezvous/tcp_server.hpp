// Serving a store at one of several addresses: what serve_tcp_store() and the job's meeting point share.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "kolo/store.hpp"
#include "rendezvous/socket.hpp"

namespace kolo {

/// Serves from a thread of its own; the error is listen_on()'s.
Result<std::unique_ptr<TcpStoreServer>> serve_store(const SocketAddress& address, const std::string& key);

}  // namespace kolo
