import { findTool } from "@berth/host/find-tool"
import { DEFAULT_ENGINE, parseEngineAddress } from "@berth/local/config/engine-address"
import type { DoctorFinding } from "@berth/protocol/doctor"
import { engineVersion } from "../engine/version.ts"
import { asRoot } from "../tools/as-root.ts"
import type { Check } from "../tools/check.ts"
import { fixForMissing, SYSTEM_PATH } from "../tools/install.ts"
import { oneLine } from "../tools/one-line.ts"

export const docker: Check = {
  name: "docker",
  why: "The docker backend runs sandboxes on it; the embedded default works without.",
  onlyFor: "docker",
  probe: async (host, signal) => {
    const address = parseEngineAddress(host.dockerHost ?? DEFAULT_ENGINE)
    const details = { address: host.dockerHost ?? DEFAULT_ENGINE }
    if (address === undefined) {
      const found = `the address ${oneLine(details.address)} is not understood`
      return { ...lacking(found, `export DOCKER_HOST=${DEFAULT_ENGINE}`), details }
    }
    try {
      const engine = await engineVersion(address, signal)
      const found = `engine ${engine.Version}, API ${engine.ApiVersion}`
      return {
        status: "ok",
        found,
        details: { ...details, version: engine.Version, apiVersion: engine.ApiVersion },
      }
    } catch (thrown) {
      signal.throwIfAborted()
      const { code, message } = thrown as NodeJS.ErrnoException
      const installed = (await findTool("dockerd", SYSTEM_PATH)) !== undefined
      return {
        ...lacking(`not reachable: ${oneLine(message)}`, await fixFor(code, installed)),
        details,
      }
    }
  },
}

const lacking = (found: string, fix: string) =>
  ({ status: "missing", found, fix }) satisfies Partial<DoctorFinding>

const fixFor = async (code: string | undefined, installed: boolean): Promise<string> => {
  if (code === "EACCES") return 'sudo usermod -aG docker "$USER", then log in again'
  if (installed) return asRoot("systemctl restart docker")
  return fixForMissing(undefined, "docker")
}
