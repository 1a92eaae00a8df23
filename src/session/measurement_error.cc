#include "session/measurement_error.h"

namespace pinprick::session {

bool is_outdated(const MeasurementError& error) {
  const auto* session = std::get_if<ledger::SessionError>(&error);
  const auto* attach = session != nullptr ? std::get_if<target::AttachError>(session) : nullptr;
  return attach != nullptr && attach->cause == target::AttachCause::probes_itself_now;
}

bool is_busy(const MeasurementError& error) {
  const auto* session = std::get_if<ledger::SessionError>(&error);
  return session != nullptr && std::holds_alternative<ledger::Busy>(*session);
}

}  // namespace pinprick::session
