"""Reads the files for other tools with readers that are not pinprick's, and prints what they say.

read_export.py perfetto FILE MODULES: slices and instants as tuples, by the rules of Perfetto's
  documentation. Names that were not interned before, and ends without a start, are errors.
read_export.py pprof FILE MODULES: samples, the innermost function first.
read_export.py prometheus FILE: samples.
MODULES is the folder of what protoc made.
"""

import gzip
import math
import sys


def value_of(annotation):
    for field in ('uint_value', 'int_value', 'string_value', 'pointer_value'):
        if annotation.HasField(field):
            return getattr(annotation, field)
    raise ValueError(f'no value: {annotation}')


def read_perfetto(path):
    """Returns a dict: slices, instants, clocks, threads by track, and whether packets were dropped."""
    import perfetto_pb2 as pb
    trace = pb.Trace()
    with open(path, 'rb') as file:
        trace.ParseFromString(file.read())
    assert not trace.UnknownFields() if hasattr(trace, 'UnknownFields') else True
    names, tracks, events = {}, {}, []
    result = {'clocks': {}, 'dropped': False, 'tracks': tracks, 'slices': [], 'instants': [], 'open': []}
    cleared = False
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id != 0
        cleared = cleared or packet.sequence_flags & 1
        result['dropped'] = result['dropped'] or packet.previous_packet_dropped
        for clock in packet.clock_snapshot.clocks:
            result['clocks'][clock.clock_id] = clock.timestamp
        for name in packet.interned_data.event_names:
            assert name.iid not in names and cleared
            names[name.iid] = name.name
        if packet.HasField('track_descriptor'):
            track = packet.track_descriptor
            assert track.parent_uuid == 0 or track.parent_uuid in tracks
            tracks[track.uuid] = track
        if packet.HasField('track_event'):
            event = packet.track_event
            assert event.track_uuid in tracks
            if event.name_iid:
                assert packet.sequence_flags & 2
                event.name = names[event.name_iid]
            events.append((packet.timestamp, event))
    # A reader sorts by time. At one time the order is that of the file.
    stacks = {}
    for time, event in sorted(events, key=lambda one: one[0]):
        annotations = {one.name: value_of(one) for one in event.debug_annotations}
        track = tracks[event.track_uuid]
        frames = [frame.function_name for frame in event.callstack.frames]
        stack = stacks.setdefault(event.track_uuid, [])
        if event.type == pb.TrackEvent.TYPE_INSTANT:
            result['instants'].append(
                {'name': event.name, 'time': time, 'track': track, 'args': annotations, 'frames': frames})
        elif event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            stack.append({'name': event.name, 'time': time, 'track': track, 'args': annotations,
                          'frames': frames, 'in': [one['name'] for one in stack]})
        else:
            assert event.type == pb.TrackEvent.TYPE_SLICE_END and stack, 'an end without a start'
            ended = stack.pop()
            ended['args'].update(annotations)
            ended['frames'] = ended['frames'] or frames
            ended['duration'] = time - ended['time']
            result['slices'].append(ended)
    result['open'] = [one for stack in stacks.values() for one in stack]
    return result


def read_pprof(path):
    """Returns the profile, its sample types, and its samples as (names, values, labels)."""
    import pprof_pb2 as pb
    profile = pb.Profile()
    with gzip.open(path) as file:
        profile.ParseFromString(file.read())
    text = profile.string_table
    assert text[0] == ''
    functions = {one.id: text[one.name] for one in profile.function}
    mappings = {one.id: one for one in profile.mapping}
    locations = {}
    for one in profile.location:
        assert one.id != 0 and one.id not in locations
        if one.mapping_id:
            mapping = mappings[one.mapping_id]
            assert mapping.memory_start <= one.address < mapping.memory_limit
        locations[one.id] = functions[one.line[0].function_id]
    types = [(text[one.type], text[one.unit]) for one in profile.sample_type]
    samples = []
    for one in profile.sample:
        assert len(one.value) == len(types)
        samples.append(([locations[number] for number in one.location_id], list(one.value),
                        {text[label.key]: text[label.str] for label in one.label}))
    return profile, types, samples


def read_prometheus(path):
    """Returns samples by name, as (labels, value). Histograms must be as the format wants them."""
    from prometheus_client.parser import text_fd_to_metric_families
    samples = {}
    with open(path, encoding='utf-8') as file:
        for family in text_fd_to_metric_families(file):
            assert family.type in ('counter', 'gauge', 'histogram'), family
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    for name, all_buckets in list(samples.items()):
        if not name.endswith('_bucket'):
            continue
        series = {}
        for labels, value in all_buckets:
            rest = tuple(sorted((k, v) for k, v in labels.items() if k != 'le'))
            series.setdefault(rest, []).append((float(labels['le']), value))
        counts = {tuple(sorted(labels.items())): value
                  for labels, value in samples[name.replace('_bucket', '_count')]}
        for rest, buckets in series.items():
            assert buckets == sorted(buckets) and len({le for le, _ in buckets}) == len(buckets)
            assert [v for _, v in buckets] == sorted(v for _, v in buckets), 'not cumulative'
            assert buckets[-1] == (math.inf, counts[rest])
    return samples


if __name__ == '__main__':
    if len(sys.argv) > 3:
        sys.path.insert(0, sys.argv[3])
    read = {'perfetto': read_perfetto, 'pprof': read_pprof, 'prometheus': read_prometheus}
    print(read[sys.argv[1]](sys.argv[2]))
