// Serving a store at one of several addresses: what serve_tcp_store() and the job's meeting point share.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "kolo/store.hpp"
#include "rendezvous/socket.hpp"
#include "security/credentials.hpp"

namespace kolo {

/// Serves from a thread of its own; the error is listen_on()'s, or Credentials::allow()'s.
Result<std::unique_ptr<TcpStoreServer>> serve_store(const SocketAddress& address,
                                                    const Credentials& credentials);

}  // namespace kolo
