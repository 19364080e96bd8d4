import type { LayersListing, ListedLayer, ListedStack } from "@berth/protocol/layer"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags, hostFlags } from "../../config-flags.ts"
import { loadHost } from "../../host.ts"
import { sayBytes, saySize } from "../../say-size.ts"
import { cancelledBySignal } from "../../signals.ts"
import { printable } from "../../terminal.ts"

export const defineLs: DefineCommand = async (command, { out }) => {
  command
    .summary("list the stacks, their layers and who stands on them (the default)")
    .description("Lists the stacks, their layers and who stands on them.")
    .option("--json", "write JSON")
  await addConfigFlags(command, "dataDir")
  command.action(async (options) => {
    const { layers } = await loadHost()
    const host = await layers(hostFlags(options))
    const found = await cancelledBySignal((signal) => host.list(signal))
    out(options.json ? toJson(found) : printable(render(found)))
  })
}

const NOTHING_HERE = `No workspace has files here yet. Files of workspaces on an engine elsewhere are volumes there:
\`docker volume ls --filter label=berth.stack\` lists them.
`

const render = ({ stacks, layers, pins, ownerless, trash, bytes }: LayersListing): string => {
  const waiting = trash === 0 ? [] : [`${trash} removed trees are still being deleted\n`]
  if (stacks.length === 0 && layers.length === 0) return [NOTHING_HERE, ...waiting].join("")
  const kept = pins.map(({ id, layer, reason }) => `${id}  keeps ${layer}: ${reason}\n`)
  return [
    ...stacks.map(renderStack),
    ...layers.map(renderLayer),
    ...kept,
    ...ownerless.map(renderOwnerless),
    ...waiting,
    `${sayBytes(bytes)} in all\n`,
  ].join("")
}

const renderStack = ({ workspace, name, layers, top, bytes, flattenAdvised }: ListedStack) => {
  const holder = top?.claimedBy ? `, used by ${top.claimedBy}` : ""
  const above = top === null ? "no top" : `top ${top.id} of ${sayBytes(top.bytes)}${holder}`
  const deep = flattenAdvised ? ", flattened when it is used next" : ""
  return `${workspace}/${name}  ${sayBytes(bytes)}: ${layers.length} layers${deep}, ${above}\n`
}

const renderOwnerless = (workspace: string) =>
  `${workspace}  belongs to no workspace that the database knows, and is removed a week after that was noted; \`berth layers export ${workspace}\` saves it\n`

const renderLayer = ({ id, origin, heldBy, ...size }: ListedLayer) => {
  const held = heldBy.length === 0 ? "nothing" : heldBy.join(", ")
  return `${id}  ${saySize(size)}, by ${origin}; stood on by ${held}\n`
}
