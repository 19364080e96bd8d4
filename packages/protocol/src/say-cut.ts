import type { EventBody } from "./event.ts"

/** Tells people how much output is missing, and how to read it. */
export const sayCut = ({
  missingBytes,
  missingEvents,
  files,
}: Extract<EventBody, { type: "output.cut" }>): string => {
  const mb = (missingBytes / 1_000_000).toFixed(1)
  const missing = `${mb} MB of output (${missingEvents} events) are left out, as it is more than the log keeps`
  return files === null
    ? `${missing}; it is not kept elsewhere`
    : `${missing}; the latest of it is on the server's machine: cat ${files}`
}
