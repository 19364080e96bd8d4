import type { InstallationId } from "@berth/protocol/ids"
import { z } from "zod"
import { INSTALLATION_LABEL } from "../engine/names.ts"
import type { NetworkNames } from "./names.ts"

/** The parts of the engine's description of a network that matter here. */
export const NetworkAnswer = z.object({
  Id: z.string(),
  Name: z.string(),
  Driver: z.string(),
  Internal: z.boolean().default(false),
  EnableIPv6: z.boolean().default(false),
  Labels: z.record(z.string(), z.string()).nullish(),
  Options: z.record(z.string(), z.string()).nullish(),
})
export type NetworkAnswer = z.infer<typeof NetworkAnswer>

const DRIVER = "bridge"
const optionsOf = (device: string) => ({
  "com.docker.network.bridge.name": device,
  // Containers on the bridge do not reach each other.
  "com.docker.network.bridge.enable_icc": "false",
})

/** The body of the engine's request to make a network. */
export const wantedNetwork = ({ network, device }: NetworkNames, installation: InstallationId) => ({
  Name: network,
  // Without this, engines up to 24 make a second network of the same name.
  CheckDuplicate: true,
  Driver: DRIVER,
  EnableIPv6: false,
  Labels: { [INSTALLATION_LABEL]: installation },
  Options: optionsOf(device),
})

/** The fault of a network of that name; undefined for the right one. */
export const whyWrong = (
  found: NetworkAnswer,
  { device }: NetworkNames,
  installation: InstallationId,
): string | undefined => {
  if (found.Driver !== DRIVER) return `its driver is ${found.Driver}, not ${DRIVER}`
  if (found.Labels?.[INSTALLATION_LABEL] !== installation) return "its labels are not ours"
  for (const [option, value] of Object.entries(optionsOf(device))) {
    const is = found.Options?.[option]
    if (is !== value) return `its option ${option} is ${is ?? "not set"}, not ${value}`
  }
  if (found.Internal) return "it leads nowhere (internal)"
  return found.EnableIPv6 ? "it has IPv6, which is not fenced" : undefined
}
