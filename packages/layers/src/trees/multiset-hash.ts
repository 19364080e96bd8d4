import { hash } from "node:crypto"

const LANES = 4
const LANE_BYTES = 8

/** A digest of lines in whatever order they come, in the memory of one digest. A line that comes twice counts twice. */
export interface MultisetHash {
  add(line: Buffer): void
  digest(): string
}

export const multisetHash = (): MultisetHash => {
  const sums = new BigUint64Array(LANES)
  let count = 0
  return {
    add: (line) => {
      const bytes = hash("sha256", line, "buffer")
      for (let lane = 0; lane < LANES; lane += 1)
        sums[lane] = (sums[lane] ?? 0n) + bytes.readBigUInt64LE(lane * LANE_BYTES)
      count += 1
    },
    digest: () => hash("sha256", `${count} ${sums.join(" ")}`, "hex"),
  }
}
