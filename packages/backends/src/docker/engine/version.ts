import { BerthError } from "@berth/protocol/errors"

export interface EngineVersion {
  /** The engine's own version, as it says it. */
  readonly engine: string
  /** The API's version, as it stands in paths. */
  readonly api: string
}

/** The oldest API with everything that the backend uses: that of Docker 20.10. */
const OLDEST = "1.41"
/** The newest API that the backend was written against. A newer engine still speaks it, unless it says otherwise. */
const NEWEST = "1.44"

interface Offered {
  readonly Version: string
  readonly ApiVersion: string
  readonly MinAPIVersion?: string | undefined
}

/** The API version that both sides speak: the newest that we know, if the engine still has it. */
export const negotiate = ({ Version, ApiVersion, MinAPIVersion }: Offered): EngineVersion => {
  if (isOlder(ApiVersion, OLDEST)) {
    throw new BerthError("backend.unsupported", `the engine ${Version} is too old`, {
      details: { engine: Version, speaks: ApiVersion, needed: OLDEST },
    })
  }
  const newest = isOlder(ApiVersion, NEWEST) ? ApiVersion : NEWEST
  const api = MinAPIVersion && isOlder(newest, MinAPIVersion) ? MinAPIVersion : newest
  return { engine: Version, api: `v${api}` }
}

const isOlder = (one: string, other: string): boolean => {
  const [a = [], b = []] = [one, other].map((text) => text.split(".").map(Number))
  return (a[0] ?? 0) - (b[0] ?? 0) < 0 || (a[0] === b[0] && (a[1] ?? 0) < (b[1] ?? 0))
}
