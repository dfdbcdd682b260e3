"""Types made anew from a type and changes of what is nested in it; driver Python."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from headrace.arrow.types import is_list

Change = Callable[[str, list[pa.Field]], list[pa.Field]]
"""From a part's name and its fields to those that take their place."""


def with_nested_changed(type_: pa.DataType, change: Change) -> pa.DataType:
    """``type_`` with other fields directly inside of it.

    ``change`` is called for the "fields" of a struct, of which it may leave some out, and with one field for the "key"
    and the "value" of a map and the "element" of a list. A dictionary, runs and an extension type are looked through;
    an extension type of which something changes becomes its storage type, as it cannot be made of other fields.
    """
    kind = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        storage = with_nested_changed(type_.storage_type, change)
        return type_ if storage.equals(type_.storage_type) else storage
    if kind.is_dictionary(type_):
        return pa.dictionary(type_.index_type, with_nested_changed(type_.value_type, change), type_.ordered)
    if kind.is_run_end_encoded(type_):
        return pa.run_end_encoded(type_.run_end_type, with_nested_changed(type_.value_type, change))
    if kind.is_struct(type_):
        return pa.struct(change("fields", [type_.field(i) for i in range(type_.num_fields)]))
    if kind.is_map(type_):
        (key,), (value,) = change("key", [type_.key_field]), change("value", [type_.item_field])
        return pa.map_(key, value, type_.keys_sorted)
    if is_list(type_):
        (element,) = change("element", [type_.value_field])
        return _list_of(type_, element)
    return type_


def _list_of(type_: pa.DataType, element: pa.Field) -> pa.DataType:
    """A list of the same kind as ``type_``."""
    kind = pa.types
    if kind.is_fixed_size_list(type_):
        return pa.list_(element, type_.list_size)
    if kind.is_large_list(type_):
        return pa.large_list(element)
    if kind.is_list_view(type_):
        return pa.list_view(element)
    return pa.large_list_view(element) if kind.is_large_list_view(type_) else pa.list_(element)
