/**
 * A signal that fires after a time. The server uses it in the place of `AbortSignal.timeout`: where `AbortSignal.any` takes
 * a signal that it made of one of those before, Node keeps that one for ever.
 */
export const timeoutSignal = (ms: number): AbortSignal => {
  const late = new AbortController()
  const fire = () => late.abort(new DOMException(`it took longer than ${ms} ms`, "TimeoutError"))
  setTimeout(fire, ms).unref()
  return late.signal
}
