import os from "node:os"

/** Describes the machine of the measurements in one line. */
export function describeMachine(): string {
  const cpus = os.cpus()
  const memoryGb = (os.totalmem() / 1024 ** 3).toFixed(1)
  return [
    cpus[0]?.model.trim() ?? "unknown processor",
    `${cpus.length} cores`,
    `${memoryGb} GiB`,
    `${os.type()} ${os.release()} ${os.machine()}`,
    `node ${process.version}`,
  ].join(", ")
}
